"""Bodies in a form that people read: nothing hidden, nothing changed, never too much."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.console.messages.bodies import (
    HEX,
    HEX_BYTES_MAX,
    JSON,
    TEXT,
    TEXT_CHARACTERS_MAX,
    shown_body,
    snippet,
    visible,
)


def test_json_is_indented_and_keeps_its_digits() -> None:
    """A number that no float has stays as it was written."""
    shown = shown_body(b'{"a":12345678901234567890.10,"b":[1,2]}')
    assert shown.form == JSON and shown.forms == (JSON, TEXT, HEX)
    assert shown.text.splitlines()[1] == '  "a": 12345678901234567890.10,'


@pytest.mark.parametrize(
    ("body", "forms"),
    [
        (b"hello", (TEXT, HEX)),
        (b"{not json}", (TEXT, HEX)),
        (b"[" * 100_000, (TEXT, HEX)),
        (b"\xff\xfe", (HEX,)),
        (b'{"a": "\xff"}', (HEX,)),
        (b"", (TEXT, HEX)),
    ],
)
def test_a_body_is_shown_in_forms_that_fit(body: bytes, forms: tuple[str, ...]) -> None:
    """The first one unless another was wanted; what cannot be is not shown so."""
    assert shown_body(body).forms == forms
    assert shown_body(body).form == forms[0]
    assert shown_body(body, HEX).form == HEX
    assert shown_body(body, "nonsense").form == forms[0]


def test_what_nobody_sees_is_written() -> None:
    """Signs that turn the direction of a line, and those without a shape."""
    assert visible("a\u202eb\x00\n\tc\u200bd") == "a\\u202eb\\x00\n\tc\\u200bd"
    assert visible("Grüße, 世界") == "Grüße, 世界"


def test_hex_has_rows_of_sixteen() -> None:
    """With their place and the signs that are ASCII."""
    shown = shown_body(bytes(range(0x3A, 0x4C)) + b"\xff", HEX)
    assert shown.text.splitlines() == [
        "00000000  3a 3b 3c 3d 3e 3f 40 41  42 43 44 45 46 47 48 49  :;<=>?@ABCDEFGHI",
        "00000010  4a 4b ff                                          JK.",
    ]


def test_a_long_body_is_cut() -> None:
    """In each form, and the answer says so."""
    text = shown_body(b"x" * (TEXT_CHARACTERS_MAX + 1))
    assert text.cut and len(text.text) == TEXT_CHARACTERS_MAX
    raw = shown_body(b"\xff" * (HEX_BYTES_MAX + 1))
    assert raw.cut and len(raw.text.splitlines()) == HEX_BYTES_MAX // 16
    assert not shown_body(b"x" * TEXT_CHARACTERS_MAX).cut


@given(st.binary(max_size=2000))
def test_any_body_has_a_beginning_and_a_form(body: bytes) -> None:
    """One line of at most some hundred signs, all of them to be seen."""
    line = snippet(body)
    assert "\n" not in line and line.isprintable()
    assert len(line) <= 120 * len("\\U00010ffff")
    assert shown_body(body).text.count("\x00") == 0


@given(st.recursive(st.none() | st.integers() | st.text(), lambda each: st.lists(each)))
def test_indented_json_means_the_same(value: object) -> None:
    """Whatever was sent as an object."""
    body = json.dumps({"value": value}).encode()
    shown = shown_body(body)
    if shown.form == JSON:
        assert json.loads(shown.text) == {"value": value}


def test_deep_json_is_not_indented_to_a_thousand_times_its_length() -> None:
    """Whoever may send a message could have a console take gigabytes, and stop it for seconds."""
    deep = b"[" * 900 + b"1," * 400_000 + b"1" + b"]" * 900
    shown = shown_body(deep, "json")
    assert shown.form == "text" and shown.forms == ("text", "hex") and shown.cut
    few = b"[" * 300 + b"1,2" + b"]" * 300
    assert shown_body(few).form == "json"
    wide = b'{"rows":[' + b",".join(b'{"a":[%d]}' % each for each in range(50_000)) + b"]}"
    assert shown_body(wide).form == "json"
    assert shown_body(b'{"a":"' + b"[" * 2000 + b'"}').form == "json"
