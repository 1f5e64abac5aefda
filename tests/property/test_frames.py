"""Frames and headers: whatever is written reads back, whatever arrives is survived."""

import json
import struct
from contextlib import suppress
from itertools import pairwise

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st

from aerobee.remoting import binary_header, json_header, msgpack_header
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import ProtocolError, RequestError
from aerobee.remoting.frame import FrameReader, decode_payload, encode_frame
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.send import SendMessageRequestV2
from aerobee.remoting.headers.typed import decode_header

INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(max_size=20)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    """Any command that its codec can carry."""
    codec = draw(st.sampled_from([Codec.JSON, Codec.ROCKETMQ, Codec.MSGPACK]))
    binary = codec == Codec.ROCKETMQ
    text = st.text(min_size=1, max_size=20) if binary else TEXT
    return Command(
        code=draw(INT16 if binary else INT32),
        ext=draw(st.dictionaries(text, text, max_size=5)),
        body=draw(st.binary(max_size=50)),
        opaque=draw(INT32),
        flag=draw(INT32),
        remark=draw(st.none() | text),
        language=draw(st.integers(0, 13)),
        version=draw(INT16 if binary else INT32),
        codec=codec,
    )


@given(st.lists(commands(), max_size=5), st.lists(st.integers(0, 400), max_size=10))
def test_any_split_of_a_stream_gives_the_same_commands(
    sent: list[Command], cuts: list[int]
) -> None:
    """Three codecs mixed, cut anywhere."""
    wire = b"".join(map(encode_frame, sent))
    reader, got = FrameReader(), list[Command]()
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in pairwise(edges):
        reader.feed(wire[start:end])
        got += reader
    assert got == sent
    assert reader.pending_bytes == 0


@given(st.lists(st.binary(max_size=200), max_size=4))
@example([b"\0\0\0\4\0\0\0\0"])
@example([b"\xff\xff\xff\xff"])
def test_random_bytes_end_in_a_protocol_error_or_not_at_all(chunks: list[bytes]) -> None:
    """A reader yields commands, waits, or gives up; it does nothing else."""
    reader = FrameReader(1 << 20)
    with suppress(ProtocolError):
        for chunk in chunks:
            reader.feed(chunk)
            assert all(isinstance(command, Command) for command in reader)


@given(commands(), st.data())
def test_a_damaged_frame_is_a_command_or_a_protocol_error(
    command: Command, data: st.DataObject
) -> None:
    """One byte of a real frame changed, behind its length word."""
    payload = bytearray(encode_frame(command)[4:])
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode_payload(bytes(payload))


@given(st.sampled_from([0, 1, 2]), st.binary(max_size=100), st.integers(0, 120))
def test_random_headers(codec: int, header: bytes, claimed_bytes: int) -> None:
    """Each codec refuses what it cannot read, wherever the header is said to end."""
    word = struct.pack(">I", codec << 24 | claimed_bytes)
    with suppress(ProtocolError):
        decode_payload(word + header)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["code", "language", "opaque", "flag", "version", "remark", "extFields"])


@given(st.dictionaries(KEYS | TEXT, JSON | st.dictionaries(TEXT, JSON), max_size=7))
def test_any_json_is_a_command_of_strings_or_a_protocol_error(fields: dict[str, object]) -> None:
    """Odd clients are understood or refused; never does anything but text get into `ext`."""
    try:
        command = json_header.decode_header_bytes(json.dumps(fields).encode())
    except ProtocolError:
        return
    assert all(type(value) is str for value in command.ext.values())
    encode_frame(command)


@given(JSON)
def test_any_msgpack_is_a_command_or_a_protocol_error(value: object) -> None:
    """The same for the third codec."""
    try:
        data = msgpack.packb(value)
    except (OverflowError, ValueError):
        return
    with suppress(ProtocolError):
        msgpack_header.decode_header_bytes(data)


@given(commands())
def test_msgpack_agrees_with_another_implementation(command: Command) -> None:
    """Both write the same array, and both read it."""
    header = msgpack_header.encode_header_bytes(command)
    assert msgpack.unpackb(header) == [
        command.code,
        command.ext,
        command.opaque,
        command.flag,
        command.remark,
        command.language,
        command.version,
    ]


@given(st.binary(max_size=300))
def test_random_binary_headers(data: bytes) -> None:
    """Lengths of every kind, negative ones too."""
    with suppress(ProtocolError):
        binary_header.decode_header_bytes(data)


FIELD_NAMES = st.sampled_from(
    [*SendMessageRequestV2.__struct_encode_fields__, *PullMessageRequest.__struct_encode_fields__]
)
QUEUE_ID = "queue_id"  # both of the headers have it
FIELD_VALUES = TEXT | st.integers().map(str) | st.sampled_from(["true", "null", "-0", "1e400"])


@given(st.dictionaries(FIELD_NAMES, FIELD_VALUES), st.integers(0, 2**31 - 1))
def test_any_fields_make_a_header_or_a_refusal(fields: dict[str, str], number: int) -> None:
    """Typed headers hold numbers that fit their types, or the request is refused."""
    complete = {name: str(number) for name in SendMessageRequestV2.__struct_encode_fields__}
    for header_type in (SendMessageRequestV2, PullMessageRequest):
        try:
            header = decode_header(header_type, {**complete, **fields})
        except RequestError:
            continue
        queue_id: int = getattr(header, QUEUE_ID)
        assert -(2**31) <= queue_id < 2**31
