"""A cluster as Spark's threads reach it: once for all that one of them asks, and how long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from time import monotonic
from typing import Any, Final, Self, TypeVar

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.directory import Cluster
from aerobee.client.cluster.nameservers import Nameservers
from aerobee.client.cluster.queue_offsets import QueueOffsets
from aerobee.client.cluster.routes import RouteCache
from aerobee.client.errors import NOT_NOW
from aerobee.client.pulls.raw import RawPuller
from aerobee.remoting.codes import ResponseCode
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.options.address import NetworkAddress

PATIENT_DELAY_S: Final = 0.05  # doubled each time
PATIENT_DELAY_S_MAX: Final = 2.0
BUSY_CODES: Final = NOT_NOW | {ResponseCode.SYSTEM_ERROR}  # another answer may come a moment later

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for synchronous callers; what they start goes on between the calls.

    A notebook's cells run in a loop already, where `asyncio.run` is refused; and tasks that read
    ahead must not stand still while rows are decoded. Ends with `close`, or as a context manager.
    """

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns, or raise what it raises; interrupts cancel it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


class ConnectedCluster(LoopThread):
    """The nameservers and brokers of a cluster, and the event loop in which they are asked.

    Who has it shares its connections, and what is known of routes, until `close`; all of it is to
    be used by coroutines that `run` is given.
    """

    def __init__(self, address: NetworkAddress) -> None:
        """Start the event loop; connections are made when needed."""
        settings = address.client()
        self.address = address
        self.directory = Cluster(address.namesrv, settings=settings)
        self.connections = self.directory.connections
        self.routes = RouteCache(Nameservers(self.connections, address.namesrv))
        brokers = Brokers(self.connections, self.routes)
        self.queue_offsets = QueueOffsets(brokers, settings.offset_timeout_ms)
        self.puller = RawPuller(brokers, address.group)
        super().__init__("aerobee-cluster")

    def close(self) -> None:
        """Close the connections, and end the event loop."""
        try:
            self.run(self.connections.close())
        finally:
            super().close()

    async def learn_brokers(self) -> set[str]:
        """Learn where all brokers are, also those that no topic's route names.

        Those answer for their topics that were deleted. Returns their names.
        """
        found: dict[str, dict[int, str]] = {}
        for each in await self.directory.brokers():
            found.setdefault(each.name, {})[each.broker_id] = each.address
        self.routes.learn(found)
        return set(found)

    def patience(self, what: str) -> Patience:
        """The tries of one thing from now on; `what` says in the failure's text what failed."""
        return Patience(self.address, what)


class Patience:
    """How long a task tries again what a cluster does not do, and what it says in the end."""

    def __init__(self, address: NetworkAddress, what: str) -> None:
        self._address = address
        self._what = what
        self._began_s = monotonic()
        self._delay_s = PATIENT_DELAY_S

    async def wait(self, problem: str) -> None:
        """Wait a little; raises ClusterUnreachable when that was enough."""
        if monotonic() - self._began_s > self._address.patience_ms / 1000:
            raise self.failure(problem)
        await asyncio.sleep(self._delay_s)
        self._delay_s = min(self._delay_s * 2, PATIENT_DELAY_S_MAX)

    def failure(self, problem: str) -> ClusterUnreachable:
        """What is said of what fails."""
        return ClusterUnreachable(
            f"cluster of {self._address}: {self._what}, tried for"
            f" {monotonic() - self._began_s:.1f} s (option networkTimeout:"
            f" {self._address.patience_ms} ms): {problem}"
        )
