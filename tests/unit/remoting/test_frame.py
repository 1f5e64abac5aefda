"""Frames: splitting a stream, and the limits on what a peer may claim."""

import struct

import pytest
from support.golden.java import java_bytes

from aerobee.remoting.command import Codec, Command, Language
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.frame import (
    FrameReader,
    decode_payload,
    encode_frame,
)

COMMANDS = [
    Command(10, {"a": "1"}, b"body", opaque=1),
    Command(11, {}, b"", opaque=2, codec=Codec.ROCKETMQ),
    Command(34, {"é": "ü"}, b"x" * 300, opaque=3, remark="r", codec=Codec.MSGPACK),
]


@pytest.mark.parametrize("cut_bytes", [1, 3, 4, 5, 4096])
def test_frames_survive_any_split(cut_bytes: int) -> None:
    """However TCP slices the stream, the same commands come out in order."""
    wire = b"".join(map(encode_frame, COMMANDS))
    reader, got = FrameReader(1024), list[Command]()
    for at in range(0, len(wire), cut_bytes):
        reader.feed(wire[at : at + cut_bytes])
        got += reader
    assert got == COMMANDS
    assert reader.pending_bytes == 0


def test_reads_and_writes_what_java_does() -> None:
    """Frames of the Java client, in both of its codecs, byte for byte."""
    json = Command(
        105, {"topic": "TopicTest"}, b"body", 77, remark="rémark", language=Language.JAVA
    )
    assert encode_frame(json) == java_bytes("frame_json")
    reader = FrameReader()
    reader.feed(java_bytes("frame_json"))
    reader.feed(java_bytes("frame_rocketmq"))
    first, second = reader
    assert first == json
    assert second == Command(
        105,
        {"topic": "TopicTest"},
        b"",
        77,
        remark="rémark",
        language=Language.JAVA,
        codec=Codec.ROCKETMQ,
    )


def test_iteration_may_stop_between_frames() -> None:
    """What was not taken comes with the next iteration."""
    reader = FrameReader()
    reader.feed(b"".join(map(encode_frame, COMMANDS)))
    assert next(iter(reader)) == COMMANDS[0]
    assert list(reader) == COMMANDS[1:]


@pytest.mark.parametrize("total", [-1, 0, 3, 1021, 0x7FFF_FFFF])
def test_a_hostile_length_is_refused_at_once(total: int) -> None:
    """A length word outside the limits ends the stream before any of its bytes arrive."""
    reader = FrameReader(1024)
    reader.feed(struct.pack(">i", total))
    with pytest.raises(ProtocolError, match=rf"frame of {total} bytes, expected 4\.\.1020"):
        list(reader)


def test_the_largest_frame_counts_its_length_word() -> None:
    """The limit holds for the whole frame, as in Netty's decoder."""
    body = b"x" * (1024 - len(encode_frame(Command(1))))
    reader = FrameReader(1024)
    reader.feed(encode_frame(Command(1, body=body)))
    assert [command.body for command in reader] == [body]
    reader.feed(encode_frame(Command(1, body=body + b"x")))
    with pytest.raises(ProtocolError):
        list(reader)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\0\0", "frame of 2 bytes"),
        (b"\0\0\0\x05{}", "header of 5 bytes in a frame of 6"),
        (b"\0\0\x20\x01" + b" " * 0x2001, "header of 8193 bytes, limit 8192"),
        (b"\x03\0\0\x02{}", "codec 3 is unknown"),
        (b"\xff\0\0\x02{}", "codec 255 is unknown"),
        (b"\0\0\0\x02{]", "no JSON"),
    ],
)
def test_damaged_payloads_are_named(payload: bytes, text: str) -> None:
    """Whatever follows the length word is checked before it is used."""
    with pytest.raises(ProtocolError, match=text):
        decode_payload(payload, header_bytes_max=8192)


def test_a_header_must_fit_its_24_bits() -> None:
    """A remark of 16 MiB is refused when it is written, not when it is read."""
    with pytest.raises(ProtocolError, match="limit 16777215"):
        encode_frame(Command(1, remark="x" * 0x100_0000))


def test_memory_follows_what_arrived() -> None:
    """A promise of 16 MiB costs nothing until it is kept."""
    reader = FrameReader()
    reader.feed(struct.pack(">i", 16 * 1024 * 1024 - 4) + bytes(10))
    assert list(reader) == []
    assert reader.pending_bytes == 14
