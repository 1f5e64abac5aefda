"""What one service has of OpenTelemetry: exporters that keep all in memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aerobee.client.otel import OpenTelemetryHook


class Service:
    """What one service has of OpenTelemetry."""

    def __init__(self, name: str) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(resource=Resource({"service.name": name}))
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.hook = OpenTelemetryHook(self.tracers, self.meters)
        self.tracer = self.tracers.get_tracer("test")

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name that have ended, in the order of their end."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self, metric: str) -> Iterator[Any]:
        """Yield the points of a metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for each in scope.metrics:
                    if each.name == metric:
                        yield from each.data.data_points


def links(span: ReadableSpan) -> Sequence[int]:
    """Return the ids of the spans that a span links to."""
    return [link.context.span_id for link in span.links]


def at(span: ReadableSpan) -> tuple[int, int]:
    """Return the ids of a span's trace and of itself."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id
