"""The parts of SQL92 filters that the table of RocketMQ's answers does not reach."""

import itertools
import math

import pytest

from aerobee.broker.features.sql92.errors import EvaluationError, ExpressionError
from aerobee.broker.features.sql92.expression import Expression
from aerobee.broker.features.sql92.scan import SCAN_NS_MAX, scan
from aerobee.broker.features.sql92.terms import DEPTH_MAX, LOOKUPS_MAX
from aerobee.broker.features.sql92.values import order_doubles, read_double, read_int32, read_int64
from aerobee.remoting.message.record import Record, encode_record

RECORD = memoryview(encode_record(Record(topic="T", properties=b"a\x012\x02")))


@pytest.mark.parametrize("text", ["a > 1", "A > 1 /* not this */", "a > 1 -- nor that\n"])
def test_names_are_case_sensitive_and_comments_are_skipped(text: str) -> None:
    """Only the first asks for the property that is there."""
    assert Expression(text).value(b"a\x012\x02") is (True if "a >" in text else None)


def test_unknown_is_not_wanted() -> None:
    """Neither is what has no answer; `accepts` never raises."""
    assert not Expression("b > 1").accepts(b"a\x012\x02")
    assert not Expression("NOT (b > 1)").accepts(b"a\x012\x02")
    assert not Expression("a > 1 OR TRUE").accepts(b"a\x01x\x02")
    assert Expression("TRUE OR a > 1").accepts(b"a\x01x\x02")


def test_bytes_that_are_no_utf8_are_text_like_others() -> None:
    """Nothing is decoded; they are no number."""
    assert Expression("a IS NOT NULL AND a <> 'x'").accepts(b"a\x01\xff\xfe\x02")
    with pytest.raises(EvaluationError):
        Expression("a > 1").value(b"a\x01\xff\xfe\x02")


def test_depth_and_lookups_are_bounded() -> None:
    """The limits themselves are allowed, one more is not, and the text names the limit."""
    deepest = "NOT " * (DEPTH_MAX - 3) + "a = 1"
    assert Expression(deepest).value(b"a\x011\x02") is not None
    with pytest.raises(ExpressionError, match=f"nested deeper than {DEPTH_MAX}"):
        Expression("NOT " + deepest)
    terms = ["a=2"] * LOOKUPS_MAX
    assert Expression(" OR ".join(terms)).value(b"a\x011\x02") is False
    with pytest.raises(ExpressionError, match=f"more than {LOOKUPS_MAX} look-ups"):
        Expression(" OR ".join([*terms, "a=3"]))


def test_brackets_cost_nothing() -> None:
    """They are gone when the expression runs."""
    assert Expression("(" * 5000 + "a = 1" + ")" * 5000).value(b"a\x011\x02") is True


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"7", 7), (b"-0007", -7), (b"+7", 7), (b"0" * 5000 + b"7", 7), ("٧".encode(), 7)],
)
def test_integers_are_read_as_java_reads_them(text: bytes, value: int) -> None:
    """Leading zeros without end, digits of other scripts."""
    assert read_int32(text) == read_int64(text) == value


@pytest.mark.parametrize("text", [b"", b"-", b"1_0", b" 7", b"7 ", b"0x7", b"9" * 5000, b"\xff"])
def test_what_is_no_integer(text: bytes) -> None:
    """Python would take some of them."""
    with pytest.raises(EvaluationError):
        read_int64(text)


def test_the_edges_of_integers() -> None:
    """The largest are read, one more is not."""
    assert read_int32(b"-2147483648") == -(2**31)
    assert read_int64(b"-9223372036854775808") == -(2**63)
    for read, text in ((read_int32, b"2147483648"), (read_int64, b"9223372036854775808")):
        with pytest.raises(EvaluationError):
            read(text)


def test_doubles_have_javas_order() -> None:
    """-0.0 is before 0.0, and NaN behind everything, itself excepted."""
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for at, low in enumerate(ordered):
        assert order_doubles(low, low) == 0
        for high in ordered[at + 1 :]:
            assert order_doubles(low, high) < 0 < order_doubles(high, low)


@pytest.mark.parametrize(
    "text", [b"inf", b"nan", b"1_0.0", b"0x1", b"1e", b".", b"5dd", "٧".encode()]
)
def test_what_is_no_double(text: bytes) -> None:
    """Python would take most of them."""
    with pytest.raises(EvaluationError):
        read_double(text)


def test_a_walk_ends_when_its_time_is_up() -> None:
    """But never before the first record was asked about."""
    now_ns = 10**9

    def clock() -> int:
        nonlocal now_ns
        now_ns += SCAN_NS_MAX // 2 + 1
        return now_ns

    accept = scan(Expression("a > 1"), clock, lambda: now_ns)
    assert [accept(RECORD) for _ in range(4)] == [True, True, None, None]


def test_time_that_the_machine_gave_to_others_ends_no_walk() -> None:
    """A clock that runs on says only when to look how much of it the walk has had."""
    clock, cpu = itertools.count(10**9, 50 * SCAN_NS_MAX), itertools.count(7, SCAN_NS_MAX // 4 + 1)
    accept = scan(Expression("a > 1"), lambda: next(clock), lambda: next(cpu))
    assert [accept(RECORD) for _ in range(6)] == [True] * 4 + [None] * 2
