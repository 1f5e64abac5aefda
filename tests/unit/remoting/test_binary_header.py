"""RocketMQ's binary header."""

import struct

import pytest

from aerobee.remoting.binary_header import decode_header_bytes, encode_header_bytes
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import ProtocolError

FIXED_BYTES = 17


def test_survives_a_round_trip() -> None:
    """Numbers, texts in UTF-8 and any number of fields."""
    command = Command(
        -3, {"é": "ü", "b": "x" * 70_000}, b"body", -1, 3, "remark", 9, -2, Codec.ROCKETMQ
    )
    assert decode_header_bytes(encode_header_bytes(command), b"body") == command


def test_empty_texts_become_nothing() -> None:
    """A length of zero is null to RocketMQ, for the remark and for each field."""
    wire = encode_header_bytes(Command(1, {"a": "", "b": "1"}, remark=""))
    decoded = decode_header_bytes(wire)
    assert (decoded.ext, decoded.remark) == ({"b": "1"}, None)


def test_text_that_is_no_utf_8_is_mended_as_in_java() -> None:
    """Bad bytes show as U+FFFD and do not cost the connection."""
    wire = encode_header_bytes(Command(1, {"k": "abc"})).replace(b"abc", b"a\xffc")
    assert decode_header_bytes(wire).ext == {"k": "a\ufffdc"}


def test_bytes_behind_the_fields_are_ignored() -> None:
    """A reader of today leaves room for what may be added."""
    wire = encode_header_bytes(Command(1, {"a": "1"}, codec=Codec.ROCKETMQ))
    assert decode_header_bytes(wire + b"more") == decode_header_bytes(wire)


def test_what_does_not_fit_is_refused() -> None:
    """POP's code is over int16: RocketMQ would cut it, this says so."""
    with pytest.raises(ProtocolError, match="code 200050"):
        encode_header_bytes(Command(200050))
    with pytest.raises(ProtocolError, match="field name of 32768 bytes"):
        encode_header_bytes(Command(1, {"k" * 32_768: "v"}))


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        struct.pack(">i", 5),
        struct.pack(">i", 4) + b"\0\0\0\0",
        struct.pack(">ih", 2, -1),
        struct.pack(">ihci", 7, 1, b"k", -1),
        struct.pack(">ihci", 7, 1, b"k", 0x7FFF_FFFF),
        struct.pack(">ihc", 3, 2, b"k"),
    ],
)
def test_lengths_that_lie_are_protocol_errors(tail: bytes) -> None:
    """Fields, keys and values must end where the header says."""
    fixed = encode_header_bytes(Command(1))[:FIXED_BYTES]
    with pytest.raises(ProtocolError):
        decode_header_bytes(fixed + tail)


@pytest.mark.parametrize("remark_bytes", [-1, 100, 0x7FFF_FFFF])
def test_a_remark_that_does_not_fit_is_a_protocol_error(remark_bytes: int) -> None:
    """Neither negative lengths nor lengths beyond the header are followed."""
    wire = bytearray(encode_header_bytes(Command(1, remark="remark")))
    struct.pack_into(">i", wire, FIXED_BYTES - 4, remark_bytes)
    with pytest.raises(ProtocolError, match=f"text of {remark_bytes} bytes"):
        decode_header_bytes(bytes(wire))


def test_a_cut_header_is_a_protocol_error() -> None:
    """Every prefix of a header is refused."""
    wire = encode_header_bytes(Command(1, {"key": "value"}, remark="r"))
    for end in range(len(wire)):
        with pytest.raises(ProtocolError):
            decode_header_bytes(wire[:end])
