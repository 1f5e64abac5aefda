"""java.util.Properties text: what Java reads and writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.remoting.config.java_properties import format_java_properties, parse_java_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listenPort=10911", {"listenPort": "10911"}),
        (
            "listenPort = 10911\r\nbrokerName:broker-b",
            {"listenPort": "10911", "brokerName": "broker-b"},
        ),
        ("# remark\n! remark\n\n  key value with blanks ", {"key": "value with blanks "}),
        ("levels=1s \\\n   5s \\\n   10s", {"levels": "1s 5s 10s"}),
        ("path=C:\\\\store", {"path": "C:\\store"}),
        ("a\\ b\\=c=d=e", {"a b=c": "d=e"}),
        ("k=\\u00e9\\uD83D\\uDE00\\t|", {"k": "é😀\t|"}),
        ("twice=1\ntwice=2", {"twice": "2"}),
        ("lonely", {"lonely": ""}),
        ("cut=off\\", {"cut": "off"}),
        ("even=back\\\\\nnext=1", {"even": "back\\", "next": "1"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    """Separators, comments, escapes and continued lines mean what they mean to Java."""
    assert parse_java_properties(text) == expected


def test_a_malformed_escape_names_its_line() -> None:
    """Java refuses a bad escape too; the operator learns where it stands."""
    with pytest.raises(ValueError, match=r"line 2: \\u12g4"):
        parse_java_properties("fine=1\nbad=\\u12g4")


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_what_is_written_reads_back(values: dict[str, str]) -> None:
    """Any keys and values survive the text form."""
    assert parse_java_properties(format_java_properties(values)) == values
