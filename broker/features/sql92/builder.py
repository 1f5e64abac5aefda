"""Turns what the parser has read into parts of an expression, rule by rule."""

import math
import operator
from typing import Final

from lark import Token, Transformer, v_args

from aerobee.broker.features.sql92.comparing import NUMBERS, comparison
from aerobee.broker.features.sql92.conditions import (
    as_condition,
    both,
    either,
    equal,
    inverse,
    listed,
    ordered,
    searched,
)
from aerobee.broker.features.sql92.errors import ExpressionError
from aerobee.broker.features.sql92.terms import (
    Kind,
    Role,
    Term,
    condition,
    constant,
    negation,
    property_named,
)
from aerobee.broker.features.sql92.tokens import string_value
from aerobee.broker.features.sql92.values import DIGITS_MAX, INT32_MAX, INT64_MAX

NULL: Final = constant(Kind.BOOL, None, "NULL")
TRUE: Final = constant(Kind.BOOL, True, "TRUE")
FALSE: Final = constant(Kind.BOOL, False, "FALSE")
_SHOWN_CHARS_MAX: Final = 60


def text_of(token: Token) -> bytes:
    """Return what a string token stands for, as records hold text."""
    return string_value(token).encode("utf-8", "replace")


def is_null(left: Term) -> Term:
    """Return whether a part is unknown; this is never unknown itself."""
    run = left.evaluate
    return condition(lambda message: run(message) is None, left)


@v_args(inline=True)
class Builder(Transformer[Token, Term]):
    """The methods have the names of the grammar's rules and get what each rule read."""

    def start(self, whole: Term) -> Term:
        """The whole expression is a condition."""
        return as_condition(whole)

    def either(self, *terms: Term) -> Term:
        """`a OR b OR c`."""
        return either(terms)

    def both(self, *terms: Term) -> Term:
        """`a AND b AND c`."""
        return both(terms)

    def equal(self, left: Term, right: Term) -> Term:
        """`a = b`."""
        return equal(left, right)

    def not_equal(self, left: Term, right: Term) -> Term:
        """`a <> b`."""
        return inverse(equal(left, right))

    def is_null(self, left: Term, _null: Token) -> Term:
        """`a IS NULL`."""
        return is_null(left)

    def is_not_null(self, left: Term, _null: Token) -> Term:
        """`a IS NOT NULL`."""
        return inverse(is_null(left))

    def greater(self, left: Term, right: Term) -> Term:
        """`a > b`."""
        return ordered(">", left, right)

    def greater_equal(self, left: Term, right: Term) -> Term:
        """`a >= b`."""
        return ordered(">=", left, right)

    def less(self, left: Term, right: Term) -> Term:
        """`a < b`."""
        return ordered("<", left, right)

    def less_equal(self, left: Term, right: Term) -> Term:
        """`a <= b`."""
        return ordered("<=", left, right)

    def contains(self, left: Term, text: Token) -> Term:
        """`a CONTAINS 'x'`."""
        return searched(left, text_of(text), operator.contains)

    def not_contains(self, left: Term, text: Token) -> Term:
        """`a NOT CONTAINS 'x'`."""
        return searched(left, text_of(text), lambda value, part: part not in value)

    def starts_with(self, left: Term, text: Token) -> Term:
        """`a STARTSWITH 'x'`."""
        return searched(left, text_of(text), bytes.startswith)

    def not_starts_with(self, left: Term, text: Token) -> Term:
        """`a NOT STARTSWITH 'x'`."""
        return searched(left, text_of(text), lambda value, part: not value.startswith(part))

    def ends_with(self, left: Term, text: Token) -> Term:
        """`a ENDSWITH 'x'`."""
        return searched(left, text_of(text), bytes.endswith)

    def not_ends_with(self, left: Term, text: Token) -> Term:
        """`a NOT ENDSWITH 'x'`."""
        return searched(left, text_of(text), lambda value, part: not value.endswith(part))

    def between(self, value: Term, low: Term, high: Term) -> Term:
        """`a BETWEEN 1 AND 5`, which constants in the wrong order cannot be."""
        constants = low.role is high.role is Role.CONSTANT and {low.kind, high.kind} <= NUMBERS
        if constants and not comparison(">=", high.kind, low.kind)(high.value, low.value):
            raise ExpressionError(
                f"Illegal values of between, left value({low.text}) must less than or equal "
                f"to right value({high.text})"
            )
        return both((ordered(">=", value, low), ordered("<=", value, high)))

    def not_between(self, value: Term, low: Term, high: Term) -> Term:
        """`a NOT BETWEEN 1 AND 5`."""
        return either((ordered("<", value, low), ordered(">", value, high)))

    def among(self, left: Term, texts: list[bytes]) -> Term:
        """`a IN ('x', 'y')`."""
        return listed(left, texts, wanted=True)

    def not_among(self, left: Term, texts: list[bytes]) -> Term:
        """`a NOT IN ('x', 'y')`."""
        return listed(left, texts, wanted=False)

    def strings(self, *texts: Token) -> list[bytes]:
        """`('x', 'y')`."""
        return [text_of(text) for text in texts]

    def minus(self, part: Term) -> Term:
        """`-5`."""
        return negation(part)

    def inverse(self, part: Term) -> Term:
        """`NOT a`."""
        return inverse(part)

    def string(self, token: Token) -> Term:
        """`'x'`."""
        return constant(Kind.TEXT, text_of(token), token[:_SHOWN_CHARS_MAX])

    def decimal(self, token: Token) -> Term:
        """`5` or `5L`: 32 bits where they are enough, else 64."""
        digits = token.rstrip("lL")
        value = int(digits) if len(digits) <= DIGITS_MAX else INT64_MAX + 1
        if value > INT64_MAX:
            raise ExpressionError(f"{digits[:_SHOWN_CHARS_MAX]} is greater than {INT64_MAX}")
        return constant(Kind.INT32 if value <= INT32_MAX else Kind.INT64, value, digits)

    def double(self, token: Token) -> Term:
        """`5.5`, `.5`, `5e3`; neither zero nor infinite."""
        value, shown = float(token), token[:_SHOWN_CHARS_MAX]
        if math.isinf(value):
            raise ExpressionError(f"{shown} is greater than 1.7976931348623157E308")
        if value == 0.0:
            raise ExpressionError(f"{shown} is less than 4.9E-324")
        return constant(Kind.DOUBLE, value, shown)

    def true(self, _token: Token) -> Term:
        """`TRUE`."""
        return TRUE

    def false(self, _token: Token) -> Term:
        """`FALSE`."""
        return FALSE

    def null(self, _token: Token) -> Term:
        """`NULL`: unknown."""
        return NULL

    def variable(self, name: Token) -> Term:
        """`a`: the property of that name."""
        return property_named(str(name))
