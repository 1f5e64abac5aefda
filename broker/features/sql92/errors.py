"""What can be wrong with a filter expression, when it is read and when it runs."""

from aerobee.broker.members.subscriptions import ExpressionRefused


class ExpressionError(ExpressionRefused):
    """An expression that cannot be compiled; the text says what is wrong, and where."""


class EvaluationError(Exception):
    """A message on which an expression has no answer, as `a > 5` where a is "x": not wanted."""
