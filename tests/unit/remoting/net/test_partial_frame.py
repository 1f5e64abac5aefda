"""The unfinished frame: what is kept of it, and when it is complete."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.frame import check_length
from aerobee.remoting.net.partial_frame import PartialFrame

LIMIT = 4096


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Cut the stream into pieces of the given lengths, over and over."""
    pieces, at, turn = [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        pieces.append(stream[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


def read_frames(pieces: list[bytes]) -> list[bytes]:
    """Read a stream as a connection does: gather, scan, keep."""
    partial, frames = PartialFrame(LIMIT), list[bytes]()
    for piece in pieces:
        data = partial.gather(piece) if partial.held_bytes else piece
        at = 0
        while len(data) - at >= 4:
            end = at + 4 + check_length(data, at, LIMIT)
            if end > len(data):
                break
            frames.append(data[at + 4 : end])
            at = end
        if at < len(data):
            partial.keep(data[at:])
    assert not partial.held_bytes
    return frames


@given(
    st.lists(st.binary(min_size=4, max_size=300), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
)
def test_frames_survive_any_split(payloads: list[bytes], cuts: list[int]) -> None:
    """However the stream is cut, the same frames come out in order."""
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    assert read_frames(split(stream, cuts)) == payloads


@pytest.mark.parametrize("size", [-1, 0, 3, LIMIT - 3, 0x7FFFFFFF])
def test_a_hostile_length_is_refused_at_once(size: int) -> None:
    """A length that no frame can have is an error before a single byte is reserved for it."""
    word = size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=f"frame of {size} bytes, allowed are 4 to {LIMIT - 4}"):
        PartialFrame(LIMIT).keep(word)


def test_a_tls_handshake_is_named() -> None:
    """As a length it would be 352 MiB; whoever reads the log should not have to know that."""
    with pytest.raises(ProtocolError, match="a TLS handshake, which is not served here"):
        PartialFrame(LIMIT).keep(b"\x16\x03\x01\x02")


def test_a_dripped_frame_takes_little_more_than_its_bytes() -> None:
    """A frame in pieces of two bytes must not cost fifty times its size in small objects."""
    size = 1 << 18
    partial = PartialFrame(size + 100)
    tracemalloc.start()
    partial.keep(size.to_bytes(4, "big"))
    for at in range(0, size - 2, 2):
        assert partial.gather(at.to_bytes(4, "big")[:2]) == b""
    used_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used_bytes < size * 1.5
    assert len(partial.gather(b"xx")) == size + 4


def test_a_length_word_in_pieces_begins_no_second_frame() -> None:
    """Its frame began with the first byte: nothing is returned before all of it is there."""
    partial = PartialFrame(LIMIT)
    partial.keep(b"\0\0")
    assert partial.gather(b"\0") == b""
    assert partial.gather(b"\x05ab") == b""
    assert (partial.held_bytes, partial.wanted_bytes) == (6, 9)
    assert partial.gather(b"cde") == b"\0\0\0\x05abcde"
    partial.keep(b"\x7f")
    assert partial.gather(b"\xff\xff\xff") == b"\x7f\xff\xff\xff", "for the scan to refuse"
