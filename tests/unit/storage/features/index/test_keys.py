"""Whether a record has a key, told by a look at its bytes."""

import pytest

from aerobee.storage.features.index.keys import IndexType, has_key

RECORD = b"UNIQ_KEY\x01U1\x02KEYS\x01one  two\x02TAGS\x01t\x02user\x01other\x02"


@pytest.mark.parametrize(
    ("key", "kind", "found"),
    [
        ("one", "K", True),
        ("two", "K", True),
        ("U1", "K", True),
        ("U1", "U", True),
        ("t", "T", True),
        ("one", "U", False),
        ("one two", "K", False),
        ("one  two", "K", False),
        ("on", "K", False),
        ("other", "K", False),
        ("t", "K", False),
        ("", "K", False),
    ],
)
def test_a_key_is_a_whole_one_of_its_kind(key: str, kind: IndexType, found: bool) -> None:
    """Parts of one, and what other properties say, are none."""
    assert has_key(RECORD, key, kind) == found


@pytest.mark.parametrize("key", ["a\ufffd", "\ufffd"])
def test_what_is_no_text_is_found_as_it_was_hashed(key: str) -> None:
    """U+FFFD takes the place of bytes that are none, and stands for itself."""
    assert has_key(b"KEYS\x01a\xff \xfe\x02", key, "K")
    assert has_key(f"KEYS\x01{key}\x02".encode(), key, "K")
