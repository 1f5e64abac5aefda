"""The values of every metric at one moment, and what is left out of them."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from aerobee.broker.measures.names import HELP, switched_off
from aerobee.broker.room import Distribution, Histogram
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.start.context import Context

ROWS_PER_TURN: Final = 100
LEFT_OUT: Final = "aerobee_metric_rows_left_out"

Labels = Mapping[str, str]


class Values:
    """Values by metric name, with their labels; `common` are those of all.

    A metric has `rows_max` rows at most; what is beyond them is counted. Rows of `off`, families
    that the settings switch off, are not taken.
    """

    def __init__(
        self,
        common: Labels,
        said: Mapping[str, str],
        rows_max: int = 50_000,
        off: frozenset[str] = frozenset(),
    ) -> None:
        self.common = common
        self.said = said  # of each metric
        self.rows: dict[str, list[tuple[Labels, float]]] = {}
        self.histograms: dict[str, list[tuple[Labels, Histogram]]] = {}
        self.left_out: dict[str, int] = {}
        self._rows_max = rows_max
        self._off = off

    def add(self, name: str, value: float, **labels: str) -> None:
        """Take one value; the name must be one of which something is said."""
        assert name in self.said, name
        rows = self.rows.get(name)
        if rows is None:
            if self._off and switched_off(name, self._off):
                return
            rows = self.rows[name] = []
        if len(rows) < self._rows_max:
            rows.append((labels, value))
        else:
            self.left_out[name] = self.left_out.get(name, 0) + 1

    def spread(self, sample: Distribution) -> None:
        """Take a histogram as it is now."""
        name = sample.name
        assert name in self.said, name
        rows = self.histograms.get(name)
        if rows is None:
            if self._off and switched_off(name, self._off):
                return
            rows = self.histograms[name] = []
        if len(rows) < self._rows_max:
            rows.append((sample.labels, sample.values.copy()))
        else:
            self.left_out[name] = self.left_out.get(name, 0) + 1

    def tell_left_out(self) -> None:
        """Add what was left out, by metric; 0 for none at all."""
        for name, count in list(self.left_out.items()):
            self.add(LEFT_OUT, count, metric=name)
        if not self.left_out:
            self.add(LEFT_OUT, 0, metric="")


def empty(ctx: Context) -> Values:
    """Return the values of a broker before any is there."""
    settings = ctx.settings
    said = {name: text for room in tuple(ctx.rooms) for name, text in room.metric_help.items()}
    return Values(
        common_labels(settings),
        HELP | said,
        settings.metrics_otel_cardinality_limit,
        settings.metrics_switched_off,
    )


def common_labels(settings: BrokerSettings) -> dict[str, str]:
    """Return what every row says of its broker; `metricsLabel` adds to that."""
    return settings.metrics_labels | {
        "node_type": "broker",
        "cluster": settings.broker_cluster_name,
        "node_id": settings.broker_name,
    }


async def in_turns(steps: Iterator[None]) -> None:
    """Take steps, and let the loop serve others after each ROWS_PER_TURN."""
    for count, _ in enumerate(steps, 1):
        if count % ROWS_PER_TURN == 0:
            await asyncio.sleep(0)
