"""Metrics sent to a collector as a feature: when, and what becomes of errors."""

import asyncio
import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aerobee.broker.features.feature import Feature
from aerobee.broker.measures.collecting import collect
from aerobee.broker.room import Sample, Work
from aerobee.broker.start.context import Context
from aerobee.remoting.extras import need

need("otlp", "metricsExporterType=OTLP_GRPC")

log = logging.getLogger(__name__)

SENDING: Final = "aerobee.broker.features.metrics.sending"  # a quarter of a second, gRPC


class MetricsSender(Feature):
    """Sends every metric to `metricsGrpcExporterTarget`, again and again, and once at the stop.

    One that does not get there is not sent again: the next one has newer values, or, where only the
    growth is sent, what has grown meanwhile as well. Messages do not wait for any of that.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._collector: Any = None
        self._sent = self._failed = 0
        self._fails: str | None = None  # why the last one did not get there

    async def start(self) -> None:
        """Import what sends, in a thread; nothing is asked of the collector yet."""
        sending = await asyncio.to_thread(importlib.import_module, SENDING)
        started_ms = self._context.health.metrics.started_ms
        self._collector = sending.Collector(self._context.settings, started_ms)

    async def stop(self) -> None:
        """Send what there is at the end, unless the collector did not answer the last time."""
        if self._collector is None:
            return
        if self._fails is None:
            await self._send()
        await asyncio.to_thread(self._collector.close)

    def background(self) -> Iterable[Work]:
        """Send them now and then."""
        interval_ms = self._context.settings.metric_grpc_exporter_interval_in_mills
        return (Work("metrics", self._send, interval_ms / 1000),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of what was sent."""
        return {
            "aerobee_metrics_exports_total": "Times that all metrics were sent to the collector",
            "aerobee_metrics_exports_failed_total": "Times that they did not get there",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how often they were sent, and how often in vain."""
        yield Sample("aerobee_metrics_exports_total", self._sent)
        yield Sample("aerobee_metrics_exports_failed_total", self._failed)

    def degraded(self) -> Iterator[str]:
        """Say so where the collector does not get them."""
        if self._fails is not None:
            target = self._context.settings.metrics_grpc_exporter_target
            yield f"metrics do not reach {target}: {self._fails}"

    async def _send(self) -> None:
        values = await collect(self._context)
        fails = await asyncio.to_thread(self._collector.send, values)
        target = self._context.settings.metrics_grpc_exporter_target
        if fails is None:
            self._sent += 1
            if self._fails is not None:
                log.info("metrics_sent_again target=%s", target)
        else:
            self._failed += 1
            if self._fails is None:
                log.warning("metrics_not_sent target=%s error=%s", target, fails)
        self._fails = fails


make = MetricsSender
