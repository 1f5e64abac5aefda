"""A collector of OpenTelemetry's metrics on a free port, and what it was sent."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)


class Collector(MetricsServiceServicer):
    """Takes metrics while it `takes` any; has requests, headers, and values by name and labels."""

    def __init__(self) -> None:
        self.takes = True
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.address = ""

    def Export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        """Take one export, or a part of one."""
        if not self.takes:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not today")
        self.headers.append(dict(context.invocation_metadata()))
        self.requests.append(request)
        return ExportMetricsServiceResponse()

    def metrics(self) -> Iterator[Any]:
        """Yield every metric of every export, in the order in which they came."""
        for request in self.requests:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    yield from scope.metrics

    def points(self, name: str) -> list[Any]:
        """Return every point of a metric, in the order in which they came."""
        found: list[Any] = []
        for metric in self.metrics():
            if metric.name == name:
                found += getattr(metric, metric.WhichOneof("data")).data_points
        return found


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    """Serve on 127.0.0.1 until the block ends."""
    collector, server = Collector(), grpc.server(futures.ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    collector.address = "http" + f"://127.0.0.1:{bound}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
