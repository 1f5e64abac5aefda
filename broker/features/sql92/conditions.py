"""What each rule of the grammar makes, with the checks that RocketMQ makes at once.

Most mistakes that types can show are refused here: `a > 'x'`, `5 AND b`, `1 IN ('1')`. The texts
of the errors are RocketMQ's (ComparisonExpression, UnaryExpression, LogicExpression).
"""

from collections.abc import Callable, Sequence

from aerobee.broker.features.sql92.comparing import equality, ordering
from aerobee.broker.features.sql92.errors import ExpressionError
from aerobee.broker.features.sql92.terms import Kind, Role, Term, condition


def as_condition(term: Term) -> Term:
    """Take a part as true, false or unknown; raises ExpressionError for what is none of them.

    A property alone is false, for every property is text, or unknown where it is missing.
    """
    if term.is_condition:
        return term
    if term.role is not Role.PROPERTY:
        raise ExpressionError(f"Expression will not result in a boolean value: {term.text}")
    find = term.evaluate
    return condition(lambda message: None if find(message) is None else False, term)


def inverse(term: Term) -> Term:
    """Return NOT a part."""
    inner = as_condition(term)
    run = inner.evaluate

    def evaluate(message: bytes) -> bool | None:
        value = run(message)
        return None if value is None else not value

    return condition(evaluate, inner)


def equal(left: Term, right: Term) -> Term:
    """Return `left = right`."""
    for side in (left, right):
        if side.role is Role.CONSTANT and side.value is None:
            raise ExpressionError(f"'{side.text}' cannot be compared.")
    if left.role is right.role is Role.CONSTANT and left.is_condition and not right.is_condition:
        raise ExpressionError(f"'{left.text}' cannot be compared with '{right.text}'")
    return condition(equality(left, right), left, right)


def ordered(sign: str, left: Term, right: Term) -> Term:
    """Return `left > right` or one of its kin."""
    for side in (left, right):
        text = side.role is Role.CONSTANT and side.kind is Kind.TEXT
        if text or side.is_condition:
            raise ExpressionError(f"Value '{side.text}' cannot be compared.")
    return condition(ordering(sign, left, right), left, right)


def either(terms: Sequence[Term]) -> Term:
    """Return the OR of parts, from left to right, up to the first that is true."""
    parts = tuple(as_condition(term) for term in terms)
    runs = tuple(part.evaluate for part in parts)

    def evaluate(message: bytes) -> bool | None:
        result: bool | None = False
        for run in runs:
            value = run(message)
            if value:
                return True
            if value is None:
                result = None
        return result

    return condition(evaluate, *parts)


def both(terms: Sequence[Term]) -> Term:
    """Return the AND of parts, from left to right, up to the first that is false."""
    parts = tuple(as_condition(term) for term in terms)
    runs = tuple(part.evaluate for part in parts)

    def evaluate(message: bytes) -> bool | None:
        result: bool | None = True
        for run in runs:
            value = run(message)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return condition(evaluate, *parts)


def searched(left: Term, text: bytes, test: Callable[[bytes, bytes], bool]) -> Term:
    """Return a test of text for a part of it; false, not unknown, where there is no text."""
    run = left.evaluate

    def evaluate(message: bytes) -> bool:
        if not text:
            return False
        value = run(message)
        return isinstance(value, bytes) and test(value, text)

    return condition(evaluate, left)


def listed(left: Term, texts: Sequence[bytes], *, wanted: bool) -> Term:
    """Return whether a property's value is one of a list, or with `wanted` false is none."""
    if left.role is not Role.PROPERTY:
        raise ExpressionError(f"Expected a property for In expression, got: {left.text}")
    find, known = left.evaluate, frozenset(texts)

    def evaluate(message: bytes) -> bool | None:
        value = find(message)
        return None if value is None else (value in known) is wanted

    return condition(evaluate, left)
