"""The parts of a compiled expression: what each is known to be, and the function that runs it.

A function takes a message's property bytes, with one separator before them, and returns True,
False or None ("unknown"); parts that are no conditions return bytes or numbers. It raises
EvaluationError where Java's evaluation fails, and the message is then not wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from aerobee.broker.features.sql92.errors import ExpressionError

Value: TypeAlias = bytes | int | float | bool | None
Evaluate: TypeAlias = Callable[[bytes], Value]

DEPTH_MAX: Final = 100  # of parts in parts: each is a call in a call when the expression runs
LOOKUPS_MAX: Final = 1000  # of properties: each may have to walk through 32 KiB of them

_SEPARATOR: Final = b"\x02"
_ASSIGN: Final = b"\x01"


class Kind(Enum):
    """What a part gives when it gives anything: known before it runs."""

    TEXT = "text"
    INT32 = "integer"
    INT64 = "long"
    DOUBLE = "double"
    BOOL = "boolean"
    NOTHING = "nothing"  # minus something that is no number


class Role(Enum):
    """What a part is to the rules of the grammar (the classes of filter.expression)."""

    CONSTANT = "constant"
    PROPERTY = "property"
    CONDITION = "condition"
    NEGATION = "negation"


@dataclass(frozen=True, slots=True)
class Term:
    """One part of an expression."""

    kind: Kind
    role: Role
    evaluate: Evaluate
    text: str  # as an error message shows it
    value: Value = None  # of a constant
    depth: int = 1
    lookups: int = 0  # of properties, when nothing is decided early

    @property
    def is_condition(self) -> bool:
        """Whether it is true, false or unknown; the constants TRUE, FALSE and NULL are."""
        return self.kind is Kind.BOOL


def constant(kind: Kind, value: Value, text: str) -> Term:
    """Make a constant; NULL is the condition that is always unknown."""
    return Term(kind, Role.CONSTANT, lambda _: value, text, value)


def property_named(name: str) -> Term:
    """Make a property; it gives None where a message has none of that name, or an empty one."""
    return Term(Kind.TEXT, Role.PROPERTY, _finder(name), name, lookups=1)


def condition(evaluate: Evaluate, *parts: Term) -> Term:
    """Make a condition of other parts; raises ExpressionError where that is too much."""
    return _made_of(parts, Term(Kind.BOOL, Role.CONDITION, evaluate, "a condition"))


def negation(part: Term) -> Term:
    """Make minus something; unknown for everything but numbers."""
    inner, text = part.evaluate, f"-{part.text}"
    if part.kind in (Kind.INT32, Kind.INT64, Kind.DOUBLE):
        value = inner(b"")
        assert isinstance(value, int | float), "numbers are constants, or minus constants"
        negated = -value
        return _made_of((part,), Term(part.kind, Role.NEGATION, lambda _: negated, text))

    def evaluate(properties: bytes) -> None:
        inner(properties)  # may fail, and then so does this

    return _made_of((part,), Term(Kind.NOTHING, Role.NEGATION, evaluate, text))


def _made_of(parts: tuple[Term, ...], whole: Term) -> Term:
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_MAX:
        raise ExpressionError(f"nested deeper than {DEPTH_MAX}")
    lookups = sum(part.lookups for part in parts)
    if lookups > LOOKUPS_MAX:
        raise ExpressionError(f"more than {LOOKUPS_MAX} look-ups of properties")
    return replace(whole, depth=depth, lookups=lookups)


def _finder(name: str) -> Evaluate:
    """Return a function that finds one property among all of them, in place.

    The last of several counts, and one without a value does not count at all
    (MessageDecoder.string2messageProperties).
    """
    needle = _SEPARATOR + name.encode() + _ASSIGN
    size = len(needle)

    def find(properties: bytes) -> bytes | None:
        at = properties.rfind(needle)
        while at >= 0:
            end = properties.find(_SEPARATOR, at + size)
            value = properties[at + size : end] if end >= 0 else properties[at + size :]
            if value:
                return value
            at = properties.rfind(needle, 0, at)
        return None

    return find
