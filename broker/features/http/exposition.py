"""The metrics as Prometheus text: read by `measures`, written in a thread."""

import asyncio
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from aerobee.broker.measures.collecting import collect
from aerobee.broker.measures.names import BARE, TOTAL
from aerobee.broker.measures.values import Labels, Values
from aerobee.broker.room import Histogram
from aerobee.broker.start.context import Context

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
ROWS_PER_PIECE: Final = 500
HEADER_LINES: Final = 2  # of a family, HELP and TYPE

Rows = Sequence[tuple[Labels, float | Histogram]]


class _Family(Collector):
    """Hands some rows of one metric to the writer of prometheus_client."""

    def __init__(self, name: str, values: Values, rows: Rows, said: str) -> None:
        self._name, self._said, self._common = name, said, values.common
        named = {key for labels, _ in rows for key in labels}
        self._keys = [*values.common, *sorted(named - set(values.common))]
        self.rows: Rows = ()

    def collect(self) -> Iterator[Metric]:
        """Yield one family."""
        spread = HistogramMetricFamily(self._name, self._said, labels=self._keys)
        kind = CounterMetricFamily if self._name.endswith(TOTAL) else GaugeMetricFamily
        plain = kind(self._name, self._said, labels=self._keys)
        for labels, value in self.rows:
            if isinstance(value, Histogram):
                spread.add_metric(self._texts(labels), _buckets(value), value.total)
            else:
                plain.add_metric(self._texts(labels), value)
        yield spread if spread.samples else plain

    def _texts(self, labels: Labels) -> list[str]:
        return [labels.get(key) or self._common.get(key, "") for key in self._keys]


async def text(ctx: Context, *, bare: bool = True) -> bytes:
    """Return every metric of the broker; other connections are served meanwhile.

    With `bare` some have a second name, without their unit.
    """
    return await asyncio.to_thread(write, await collect(ctx), bare=bare)


def write(values: Values, *, bare: bool) -> bytes:
    """Write some rows at a time: the objects of all would be searched for garbage in one go,
    for which every thread of the process stands still."""
    pieces: list[bytes] = []
    for name, rows in values.rows.items():
        pieces += _pieces(_Family(name, values, rows, values.said[name]), rows)
    for name, spread in values.histograms.items():
        pieces += _pieces(_Family(name, values, spread, values.said[name]), spread)
    for short, name in BARE.items() if bare else ():
        if rows := values.rows.get(name, []):
            pieces += _pieces(_Family(short, values, rows, f"The same as {name}"), rows)
    return b"".join(pieces)


def _pieces(family: _Family, rows: Rows) -> Iterator[bytes]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(family)
    for at in range(0, len(rows), ROWS_PER_PIECE):
        family.rows = rows[at : at + ROWS_PER_PIECE]
        text = generate_latest(registry)
        yield text.split(b"\n", HEADER_LINES)[HEADER_LINES] if at else text


def _text(bound: float) -> str:
    return "+Inf" if bound == inf else str(float(bound))


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return how many values there were up to each bound, as Prometheus adds them up."""
    added, buckets = 0, []
    for bound, count in zip((*histogram.bounds, inf), histogram.counts, strict=True):
        added += count
        buckets.append((_text(bound), float(added)))
    return buckets
