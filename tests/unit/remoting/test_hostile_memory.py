"""The dearest texts that a peer can send cost a bounded multiple of their length."""

import struct
import tracemalloc
from collections.abc import Callable

import msgpack
import pytest

from aerobee.remoting.bodies import HeartbeatData, decode_body
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.fastjson import loads
from aerobee.remoting.frame import decode_payload
from aerobee.remoting.message.batch import split_batch

TIMES_MAX = 40  # with the limits of headers and frames: 160 MiB, 640 MiB where VALUES_MAX cuts in
COUNT = 50_000


def payload(codec: int, header: bytes) -> bytes:
    """Frame a header without its length word."""
    return struct.pack(">I", codec << 24 | len(header)) + header


def json_object(value: bytes) -> bytes:
    """Return many short keys with the same value."""
    return b"{" + b",".join(b'"%x":%s' % (number, value) for number in range(COUNT)) + b"}"


CASES: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "many fields in JSON": (decode_payload, payload(0, b'{"extFields":%s}' % json_object(b'""'))),
    "many odd fields in JSON": (
        decode_payload,
        payload(0, b'{"extFields":%s}' % json_object(b"1")),
    ),
    "many halves of characters in JSON": (
        decode_payload,
        payload(0, rb'{"remark":"\n%s"}' % (rb"\ud800\n\\" * COUNT)),
    ),
    "many fields in msgpack": (
        decode_payload,
        payload(2, msgpack.packb([1, {f"{n:x}": "" for n in range(COUNT)}, 1, 1, None, 1, 1])),
    ),
    "many fields in binary": (
        decode_payload,
        payload(
            1,
            bytes(17)
            + struct.pack(">i", 10 * COUNT)
            + b"".join(
                struct.pack(">h3sic", 3, b"%03x" % (n & 0xFFF), 1, b"a") for n in range(COUNT)
            ),
        ),
    ),
    "many groups": (
        lambda data: decode_body(HeartbeatData, data),
        b'{"clientID":"c","consumerDataSet":[%s]}' % b",".join([b'{"groupName":"g"}'] * COUNT),
    ),
    "many strings": (
        lambda data: decode_body(HeartbeatData, data),
        b'{"clientID":1,"x":[%s]}' % b",".join(b'"%x"' % number for number in range(COUNT)),
    ),
    "many arrays": (loads, b"[%s]" % b",".join([b"[]"] * COUNT)),
    "many bare keys": (loads, b"{%s}" % b",".join(b"%d:0" % number for number in range(COUNT))),
    "many object keys": (loads, b"{%s}" % b",".join(b"{}:%d" % number for number in range(COUNT))),
    "many messages": (split_batch, struct.pack(">iiiiih", 22, 0, 0, 0, 0, 0) * COUNT),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_is_in_proportion_to_what_was_sent(name: str) -> None:
    """Whether it is accepted or refused in the end."""
    decode, data = CASES[name]
    tracemalloc.start()
    try:
        decode(data)
    except AerobeeError:
        pass
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak_bytes < TIMES_MAX * len(data)
