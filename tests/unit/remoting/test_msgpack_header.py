"""The msgpack header, checked against another implementation of msgpack."""

import msgpack
import pytest

from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.headers.heartbeat import HeartbeatReply
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.msgpack_header import (
    EXT_MSGPACK,
    decode_header_bytes,
    encode_header_bytes,
)

COMMAND = Command(310, {"a": "g", "i": "x\x01y\x02"}, b"", 7, 1, None, 3, 513, Codec.MSGPACK)
ARRAY = [310, {"a": "g", "i": "x\x01y\x02"}, 7, 1, None, 3, 513]


def test_is_the_array_that_the_document_shows() -> None:
    """Another msgpack reads and writes the same."""
    assert msgpack.unpackb(encode_header_bytes(COMMAND)) == ARRAY
    assert decode_header_bytes(msgpack.packb(ARRAY)) == COMMAND
    assert decode_header_bytes(msgpack.packb([*ARRAY, "added later"]), b"b").body == b"b"


def test_is_offered_under_its_name() -> None:
    """The typed heartbeat reply and the constant agree."""
    assert encode_header(HeartbeatReply(msgpack=True))[EXT_MSGPACK] == "true"
    assert EXT_MSGPACK not in encode_header(HeartbeatReply())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgpack.packb({}),
        msgpack.packb(ARRAY[:6]),
        msgpack.packb([2**31, *ARRAY[1:]]),
        msgpack.packb([310, {"a": 1}, *ARRAY[2:]]),
        msgpack.packb([310, {1: "a"}, *ARRAY[2:]]),
        msgpack.packb(["310", *ARRAY[1:]]),
        b"\xdd\xff\xff\xff\xff",
        b"\x97\x01\xdf\xff\xff\xff\xff",
        b"\x97\x01\xdb\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\x98\x01\x80\x01\x01\xc0\x01\x01" + b"\x91" * 100_000,
    ],
)
def test_anything_else_is_a_protocol_error(data: bytes) -> None:
    """Wrong types, huge counts and deep nesting are refused without following them."""
    with pytest.raises(ProtocolError, match="header"):
        decode_header_bytes(data)
