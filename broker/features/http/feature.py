"""The HTTP side as a feature: it listens from the start on, and is imported for who comes."""

from functools import partial
from typing import Final

from aerobee.broker.features.feature import Feature
from aerobee.broker.features.http.late_port import LatePort
from aerobee.broker.start.context import Context
from aerobee.remoting.net.tasks import Tasks

REQUEST_BYTES_MAX: Final = 1024  # nothing here takes a body
STOP_TIMEOUT_S: Final = 1.0


class HttpServer(Feature):
    """Health, metrics and read-only JSON of one broker; switched off by `httpPort=off`.

    With `metricsExporterType=PROM` metrics alone are on RocketMQ's port for them, too. The broker
    goes on without a port that it cannot have. Who comes first waits until its code is there, a
    fifth of a second; a broker that nobody asks has the memory for other things.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks = Tasks(context.health.faults.caught)
        limits = REQUEST_BYTES_MAX, STOP_TIMEOUT_S
        self._all = LatePort(
            lambda views: views.make_runner(context, *limits),
            self._tasks,
            partial(setattr, context.front, "http_port"),
        )
        self._metrics = LatePort(
            lambda views: views.make_metrics_runner(context, *limits),
            self._tasks,
            partial(setattr, context.front, "metrics_port"),
        )

    async def start(self) -> None:
        """Listen on `httpHost`, and where RocketMQ's metrics are."""
        settings = self._context.settings
        if settings.http_port_wanted is not None:
            await self._all.open(settings.http_host, settings.http_port_wanted)
        if settings.has_metrics_port:
            await self._metrics.open(settings.metrics_host, settings.metrics_prom_exporter_port)

    async def stop(self) -> None:
        """Close the ports and every connection."""
        await self._tasks.close()
        await self._all.close()
        await self._metrics.close()


make = HttpServer
