"""Comparisons of two parts, chosen when the expression is compiled: by kind, not by message.

RocketMQ decides by the classes of two values, and reads text as a number of the other side's
class; a part's class is known beforehand here (ComparisonExpression.java). Its quirks are kept:
text against text is equal as text and ordered as doubles; a condition cannot be compared with
text; a number is never equal to a condition, and orders before it.
"""

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from aerobee.broker.features.sql92.errors import EvaluationError
from aerobee.broker.features.sql92.terms import Evaluate, Kind, Role, Term
from aerobee.broker.features.sql92.values import (
    order_doubles,
    read_bool,
    read_double,
    read_int32,
    read_int64,
)

Compare: TypeAlias = Callable[[Any, Any], bool]
Read: TypeAlias = Callable[[Any], Any]

OPERATORS: Final[dict[str, Compare]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
NUMBERS: Final = frozenset({Kind.INT32, Kind.INT64, Kind.DOUBLE})
_READ: Final[dict[Kind, Read]] = {
    Kind.INT32: read_int32,
    Kind.INT64: read_int64,
    Kind.DOUBLE: read_double,
    Kind.BOOL: read_bool,
}


def equality(left: Term, right: Term) -> Evaluate:
    """Return `left = right`: both unknown is true, only the left one unknown, else false."""
    get_left, get_right = left.evaluate, right.evaluate
    same = comparison("=", left.kind, right.kind)

    def evaluate(properties: bytes) -> bool | None:
        left_value, right_value = get_left(properties), get_right(properties)
        if left_value is None:
            return True if right_value is None else None
        if right_value is None:
            return False
        return same(left_value, right_value)

    return evaluate


def ordering(sign: str, left: Term, right: Term) -> Evaluate:
    """Return `left > right` or one of its kin; unknown where a side is."""
    get_left, get_right = left.evaluate, right.evaluate
    compare = comparison(sign, left.kind, right.kind)
    if right.role is Role.CONSTANT:  # as nearly all are
        limit = right.value

        def against_constant(properties: bytes) -> bool | None:
            value = get_left(properties)
            return None if value is None else compare(value, limit)

        return against_constant

    def evaluate(properties: bytes) -> bool | None:
        left_value = get_left(properties)
        if left_value is None:
            return None
        right_value = get_right(properties)
        return None if right_value is None else compare(left_value, right_value)

    return evaluate


def comparison(sign: str, left: Kind, right: Kind) -> Compare:
    """Return the function that compares values of these kinds, neither of them unknown."""
    if left is right is Kind.TEXT and sign == "=":
        return operator.eq
    if left is right is Kind.TEXT:
        return _converted(_doubles(sign), read_double, read_double)
    if left is Kind.TEXT and right is not Kind.NOTHING:
        return _converted(_of_kind(sign, right), _READ[right], None)
    if right is Kind.TEXT and left in NUMBERS:
        return _converted(_of_kind(sign, left), None, _READ[left])
    if left in NUMBERS and right in NUMBERS:
        return _of_kind(sign, Kind.DOUBLE if Kind.DOUBLE in (left, right) else Kind.INT64)
    if left is right is Kind.BOOL:
        return OPERATORS[sign]
    if left is Kind.BOOL and right is Kind.TEXT:
        return _never
    before = OPERATORS[sign](-1, 0)  # what cannot be compared counts as less
    return lambda _left, _right: before


def _of_kind(sign: str, kind: Kind) -> Compare:
    return _doubles(sign) if kind is Kind.DOUBLE else OPERATORS[sign]


def _doubles(sign: str) -> Compare:
    """Return a comparison in Java's order of doubles; integers become doubles first."""
    test = OPERATORS[sign]
    return lambda left, right: test(order_doubles(float(left), float(right)), 0)


def _converted(compare: Compare, read_left: Read | None, read_right: Read | None) -> Compare:
    """Return a comparison that first reads text as a number or a truth value."""
    if read_left is None:
        assert read_right is not None
        read = read_right
        return lambda left, right: compare(left, read(right))
    if read_right is None:
        read = read_left
        return lambda left, right: compare(read(left), right)
    first, second = read_left, read_right
    return lambda left, right: compare(first(left), second(right))


def _never(_left: object, _right: object) -> bool:
    """Fail as Java does, which casts the condition to text."""
    raise EvaluationError("a condition cannot be compared with text")
