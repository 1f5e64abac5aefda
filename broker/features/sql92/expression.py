"""A compiled filter expression: from text to a function over property bytes."""

from typing import Final

from aerobee.broker.features.sql92.errors import EvaluationError, ExpressionError
from aerobee.broker.features.sql92.grammar import parse

CHARS_MAX: Final = 16_384
"""Of an expression; to compile one takes less than 100 ms."""


class Expression:
    """What a consumer wants, to be asked for each message."""

    __slots__ = ("_evaluate",)

    def __init__(self, text: str) -> None:
        """Compile; raises ExpressionError."""
        if len(text) > CHARS_MAX:
            raise ExpressionError(f"{len(text)} characters, at most {CHARS_MAX} are allowed")
        self._evaluate = parse(text).evaluate

    def value(self, properties: bytes) -> bool | None:
        """Evaluate over a record's property bytes; None is unknown. Raises EvaluationError."""
        value = self._evaluate(b"\x02" + properties)
        assert value is None or isinstance(value, bool), "an expression is a condition"
        return value

    def accepts(self, properties: bytes) -> bool:
        """Whether a message is wanted: neither false, nor unknown, nor without an answer."""
        try:
            return self._evaluate(b"\x02" + properties) is True
        except EvaluationError:
            return False
