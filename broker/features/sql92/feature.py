"""SQL92 as a feature: a language of filters, whose grammar takes a tenth of a second to import."""

from collections.abc import Callable

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.sql92.expression import Expression
from aerobee.broker.features.sql92.scan import scan
from aerobee.broker.members.subscriptions import Scan
from aerobee.remoting.words import SQL92


class Sql92(Feature):
    """Compiles the expressions of subscriptions; switched on by `enablePropertyFilter`."""

    def __init__(self, parts: Parts) -> None:
        parts.members.sql_filters.languages[SQL92] = compiled


def compiled(expression: str) -> Callable[[], Scan]:
    """Compile an expression; raises ExpressionError."""
    made = Expression(expression)
    return lambda: scan(made)


make = Sql92
