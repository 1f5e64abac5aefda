"""Filter expressions that nobody would write: refused or run, nothing else, and not for long."""

import time

from hypothesis import given
from hypothesis import strategies as st
from support.golden.filters import WORDS

from aerobee.broker.features.sql92.errors import EvaluationError, ExpressionError
from aerobee.broker.features.sql92.expression import CHARS_MAX, Expression
from aerobee.broker.features.sql92.scan import properties_of
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, encode_record

NAMES = st.sampled_from(["a", "b", "TAGS", "missing"])
VALUES = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=12)
NUMBERS = st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,5})?([eE][+-]?[0-9]{1,3})?\Z")


def run(text: str, properties: bytes) -> bool | None:
    """Return what a message is to an expression; None for one that is refused, or has no answer."""
    try:
        return Expression(text).value(properties)
    except (ExpressionError, EvaluationError):
        return None


@given(st.text(max_size=200), st.binary(max_size=100))
def test_any_text_over_any_bytes_is_refused_or_answered(text: str, properties: bytes) -> None:
    """There is no third outcome."""
    run(text, properties)


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.binary(max_size=100))
def test_any_words_are_refused_or_answered(words: list[str], properties: bytes) -> None:
    """Words of the language in any order reach deeper than letters do."""
    run(" ".join(words), properties)


@given(NAMES, VALUES | NUMBERS, st.sampled_from(["=", "<>", ">", ">=", "<", "<="]), NUMBERS)
def test_numbers_of_any_length_are_compared_or_fail(
    name: str, value: str, sign: str, number: str
) -> None:
    """Python's own reading of numbers (underscores, huge integers) is never let through."""
    run(f"{name} {sign} {number}", f"{name}\x01{value}\x02".encode())


@given(NAMES, VALUES.filter(bool))
def test_a_value_is_equal_to_itself_as_text(name: str, value: str) -> None:
    """Whatever it holds, quotes included."""
    quoted = value.replace("'", "''")
    properties = f"{name}\x01{value}\x02".encode()
    assert run(f"{name} = '{quoted}'", properties) is True
    assert run(f"{name} IN ('', '{quoted}')", properties) is True
    assert run(f"{name} CONTAINS '{quoted}' AND {name} ENDSWITH '{quoted}'", properties) is True


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), NAMES)
def test_properties_are_found_in_place_as_by_the_parser(
    pairs: list[tuple[str, str]], name: str
) -> None:
    """Repeated, empty and missing ones are what the table of all properties has."""
    properties = "".join(f"{key}\x01{value}\x02" for key, value in pairs).encode()
    known = parse_properties(properties.decode()).get(name)
    assert run(f"{name} IS NOT NULL", properties) is (known is not None)
    if known is not None:
        quoted = known.replace("'", "''")
        assert run(f"{name} = '{quoted}'", properties) is True


@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.sampled_from(["T", "T" * 127, "T" * 128, "T" * 255]),
    st.sampled_from(["10.0.0.1", "::1"]),
    st.sampled_from(["10.0.0.1", "::1"]),
)
def test_the_properties_of_any_record_are_found(
    body: bytes, properties: bytes, topic: str, born: str, stored: str
) -> None:
    """Hosts of both families, topics with one and two bytes of length."""
    record = Record(
        topic=topic,
        body=body,
        properties=properties,
        born_host=(born, 1),
        store_host=(stored, 2),
    )
    assert properties_of(memoryview(encode_record(record))) == properties


def test_the_longest_expressions_are_compiled_or_refused_in_time() -> None:
    """Each shape that could grow without end, at full length."""
    shapes = [
        "a=1 OR ", "a=1 AND ", "NOT ", "(", "+", "-", "- ", "a IN ('", "'", "''", "a=",
        "a IS NULL IS ",
        "/*", "/* */", "--", "-- \n", "0", "9", ".", "1.", "1e", "a>1 AND b CONTAINS 'x' OR ",
        "a BETWEEN ", "a NOT ", "a", "_", "\n", "\t ", "é", "\U0001f600",
    ]  # fmt: skip
    for shape in shapes:
        text = (shape * (CHARS_MAX // len(shape) + 1))[:CHARS_MAX]
        began_s = time.process_time()
        run(text, b"a\x011\x02")
        run(f"a = 1 OR {text}"[:CHARS_MAX], b"a\x011\x02")
        assert time.process_time() - began_s < 1.0, shape


def test_an_expression_that_is_too_long_is_refused_unread() -> None:
    """The text says how long one may be."""
    try:
        Expression("a" * (CHARS_MAX + 1))
    except ExpressionError as error:
        assert str(CHARS_MAX) in str(error)
    else:
        raise AssertionError("it was taken")
