"""The body of a batch send."""

import struct

import pytest
from support.golden.java import java_bytes

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.batch import BatchedMessage, encode_batch, split_batch

JAVA = [
    BatchedMessage(number, b"body%d" % number, b"WAIT\x01true\x02n\x01%d\x02" % number)
    for number in range(3)
]


def test_agrees_with_java_byte_for_byte() -> None:
    """Three messages of MessageDecoder.encodeMessages."""
    assert encode_batch(JAVA) == java_bytes("batch")
    assert split_batch(java_bytes("batch")) == JAVA
    assert split_batch(memoryview(java_bytes("batch"))) == JAVA
    assert split_batch(b"") == []


def test_properties_that_do_not_fit_are_refused() -> None:
    """Their length is an int16."""
    with pytest.raises(ValueError, match="properties of 32768 bytes, limit 32767"):
        encode_batch([BatchedMessage(0, b"", bytes(32_768))])


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (0, 23), (0, -1), (0, 0x7FFF_FFFF), (16, -1), (16, 0x7FFF_FFFF), (16, 1)],
)
def test_lengths_that_lie_are_refused(at: int, value: int) -> None:
    """Each message's total must be the sum of its parts."""
    body = bytearray(encode_batch([BatchedMessage(0, b"", b"")] * 2))
    struct.pack_into(">i", body, 22 + at, value)
    with pytest.raises(RequestError, match="message at byte 22: ") as caught:
        split_batch(bytes(body))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_cut_batch_is_refused() -> None:
    """No prefix of a batch passes for a shorter one, except at a boundary."""
    body = encode_batch(JAVA)
    whole = {0, len(body) // 3, 2 * len(body) // 3}
    for end in set(range(len(body))) - whole:
        with pytest.raises(RequestError, match="batch is damaged"):
            split_batch(body[:end])
