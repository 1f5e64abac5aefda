"""The metrics as OpenTelemetry has them, sent by its exporter; called by a thread."""

import logging
import time
from collections.abc import Iterator
from typing import Final

from grpc import Compression
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as Distributions
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from aerobee.broker.measures.names import TOTAL, instrument
from aerobee.broker.measures.values import Labels, Values
from aerobee.broker.room import Histogram
from aerobee.broker.settings.keys import BrokerSettings

METER: Final = "broker-meter"  # RocketMQ's
SERVICE: Final = "aerobee-broker"
MS_NS: Final = 1_000_000
OTLP_LOG: Final = "opentelemetry.exporter.otlp.proto.grpc.exporter"

Key = tuple[str, frozenset[tuple[str, str]]]


class Collector:
    """Where metrics are sent, and what it has been told before.

    With `metricsInDelta` counters and histograms are sent as what they have grown by since the last
    time that got there, and every series says so (`aggregation=delta`), as RocketMQ's.
    """

    def __init__(self, settings: BrokerSettings, started_ms: int) -> None:
        scheme, _, address = settings.metrics_grpc_exporter_target.rpartition("://")
        self._exporter = OTLPMetricExporter(
            endpoint=f"{scheme or 'https'}://{address}",
            insecure=scheme == "http",
            headers=tuple(settings.metrics_headers.items()),
            timeout=settings.metric_grpc_exporter_time_out_in_mills / 1000,
            compression=Compression.Gzip,
            max_export_batch_size=settings.metrics_export_batch_max_data_points,
        )
        self._timeout_ms = settings.metric_grpc_exporter_time_out_in_mills
        self._delta = settings.metrics_in_delta
        self._since_ns = started_ms * MS_NS
        self._told: dict[Key, float | Histogram] = {}
        self._heard = _Heard()
        logging.getLogger(OTLP_LOG).addHandler(self._heard)

    def send(self, values: Values) -> str | None:
        """Send every value; return why they did not get there, None where they did."""
        told: dict[Key, float | Histogram] = {}
        metrics = list(self._metrics(values, time.time_ns(), told))
        scope = ScopeMetrics(InstrumentationScope(METER), metrics, schema_url="")
        who = {"service.name": SERVICE, "service.instance.id": values.common["node_id"]}
        data = MetricsData([ResourceMetrics(Resource(who), [scope], schema_url="")])
        self._heard.text = ""
        try:
            result = self._exporter.export(data, timeout_millis=self._timeout_ms)
        except Exception as error:  # noqa: BLE001  whatever it is, the next time may be better
            return f"{type(error).__name__}: {error}"
        if result is not MetricExportResult.SUCCESS:
            return self._heard.text or "the collector did not take them"
        if self._delta:
            self._told, self._since_ns = told, time.time_ns()
        return None

    def close(self) -> None:
        """Give up what is under way."""
        self._exporter.shutdown(timeout_millis=self._timeout_ms)
        logging.getLogger(OTLP_LOG).removeHandler(self._heard)

    def _metrics(
        self, values: Values, now_ns: int, told: dict[Key, float | Histogram]
    ) -> Iterator[Metric]:
        """Yield each metric; note in `told` what is sent of those that grow."""
        delta = self._delta
        temporality = AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE
        for name, rows in values.rows.items():
            named, points = instrument(name), []
            for labels, value in rows:
                attributes = self._attributes(values, labels)
                if delta and name.endswith(TOTAL):
                    key = name, frozenset(labels.items())
                    told[key], before = value, self._told.get(key, 0.0)
                    value -= before if isinstance(before, float | int) and before <= value else 0.0
                points.append(NumberDataPoint(attributes, self._since_ns, now_ns, float(value)))
            data = Sum(points, temporality, True) if name.endswith(TOTAL) else Gauge(points)
            yield Metric(named.name, values.said[name], named.unit, data)
        for name, histograms in values.histograms.items():
            named, spread = instrument(name), []
            for labels, histogram in histograms:
                attributes = self._attributes(values, labels)
                if delta:
                    key = name, frozenset(labels.items())
                    told[key], known = histogram, self._told.get(key)
                    histogram = _growth(histogram, known if isinstance(known, Histogram) else None)
                spread.append(_point(attributes, histogram, (self._since_ns, now_ns)))
            distributions = Distributions(spread, temporality)
            yield Metric(named.name, values.said[name], named.unit, distributions)

    def _attributes(self, values: Values, labels: Labels) -> dict[str, str]:
        added = {"aggregation": "delta"} if self._delta else {}
        return {**values.common, **added, **labels}


class _Heard(logging.Handler):
    """Keeps the last complaint of the exporter, which would go to standard error otherwise."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is said."""
        self.text = record.getMessage()


def _growth(now: Histogram, before: Histogram | None) -> Histogram:
    """Return what a histogram has grown by."""
    if before is None or any(a < b for a, b in zip(now.counts, before.counts, strict=True)):
        return now
    grown = Histogram(now.bounds)
    grown.counts = [a - b for a, b in zip(now.counts, before.counts, strict=True)]
    grown.total = now.total - before.total
    return grown


def _point(
    attributes: dict[str, str], histogram: Histogram, times: tuple[int, int]
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes,
        *times,
        count=sum(histogram.counts),
        sum=histogram.total,
        bucket_counts=histogram.counts,
        explicit_bounds=histogram.bounds,
        min=0.0,
        max=0.0,
    )
