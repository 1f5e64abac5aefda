"""Property strings."""

import pytest
from support.golden.java import java_bytes, java_rows

from aerobee.remoting.message.properties import find_property, format_properties, parse_properties


@pytest.mark.parametrize(("text", "expected"), java_rows("parse"))
def test_reads_as_java_reads(text: str, expected: str) -> None:
    """Cut-off, empty and repeated pairs end as they do in MessageDecoder."""
    pairs = parse_properties(bytes.fromhex(text))
    assert "{" + ", ".join(f"{name}={value}" for name, value in sorted(pairs.items())) + "}" == (
        expected
    )


def test_writes_as_java_writes() -> None:
    """Name, 1, value, 2 for every pair, in UTF-8."""
    written = format_properties({"a": "1", "b": "x y", "c": "é"})
    assert written.encode() == java_bytes("properties")


def test_reads_text_and_broken_utf_8() -> None:
    """A str is taken as it is; bytes that are no UTF-8 show as U+FFFD."""
    assert parse_properties("a\x011\x02") == {"a": "1"}
    assert parse_properties(b"a\x01\xff\x02") == {"a": "\ufffd"}
    assert parse_properties(memoryview(b"a\x011\x02")) == {"a": "1"}


@pytest.mark.parametrize("pairs", [{"a\x01": "b"}, {"a": "b\x02"}, {"a": "b\x01"}])
def test_refuses_what_would_read_back_as_something_else(pairs: dict[str, str]) -> None:
    """A separator inside a value would smuggle in other properties."""
    with pytest.raises(ValueError, match=r"'a.*' contains a separator"):
        format_properties({"fine": "1", **pairs})


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"TAGS\x01a\x02", "a"),
        (b"KEYS\x01k\x02TAGS\x01b", "b"),
        (b"TAGS\x01a\x02TAGS\x01b\x02", "b"),
        (b"TAGS\x01a\x02TAGS\x01\x02", "a"),
        (b"XTAGS\x01a\x02", None),
        (b"KEYS\x01TAGS\x02", None),
        (b"TAGS\x01\x02", None),
        (b"", None),
    ],
)
def test_finds_one_property(raw: bytes, found: str | None) -> None:
    """Looking for one gives what reading all of them gives."""
    assert find_property(raw, "TAGS") == found == parse_properties(raw).get("TAGS")
