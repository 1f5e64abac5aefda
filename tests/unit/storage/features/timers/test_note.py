"""The note of what waits: whole, or none."""

from hypothesis import given
from hypothesis import strategies as st

from aerobee.storage.features.timers.codecs import CHECK_BYTES, SLOT_BYTES
from aerobee.storage.features.timers.note import TimersNote, decode_note, encode_note

NUMBERS = st.integers(0, 2**62)
NOTES = st.builds(
    TimersNote,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.binary(min_size=CHECK_BYTES, max_size=CHECK_BYTES),
    st.binary(min_size=CHECK_BYTES, max_size=CHECK_BYTES),
    st.dictionaries(
        st.integers(0, 1_209_599), st.binary(min_size=SLOT_BYTES, max_size=SLOT_BYTES), max_size=5
    ),
    st.binary(max_size=50),
)


@given(NOTES)
def test_a_note_comes_back(note: TimersNote) -> None:
    """With its slots and counts."""
    assert decode_note(encode_note(note)) == note


@given(NOTES, st.data())
def test_a_note_with_a_wrong_bit_is_none(note: TimersNote, data: st.DataObject) -> None:
    """And so is one that was cut, or has more behind it."""
    whole = encode_note(note)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    wrong = bytearray(whole)
    wrong[bit // 8] ^= 1 << bit % 8
    assert decode_note(bytes(wrong)) is None
    assert decode_note(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    assert decode_note(whole + b"\0") is None


def test_no_file_is_no_note() -> None:
    """Before anything has waited."""
    assert decode_note(None) is None
