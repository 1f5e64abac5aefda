"""An embedded cluster in a thread with a loop of its own, for tests that block."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from aerobee.testing.cluster import EmbeddedCluster

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 30.0
CANCELLED_S: Final = 5.0  # how long tasks may take to end when the thread does


class ClusterThread:
    """The same cluster for synchronous tests and for clients of any language.

    Takes the arguments of `EmbeddedCluster`; runs from `start` to `stop`, or for a `with` block,
    and may be started again.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: EmbeddedCluster | None = None

    def __repr__(self) -> str:
        """Show where it is reached: <ClusterThread at 127.0.0.1:40001>."""
        return f"<{type(self).__name__} {self._cluster.place if self._cluster else 'not started'}>"

    @property
    def cluster(self) -> EmbeddedCluster:
        """The cluster itself; its coroutines belong to the thread's loop, see `call`."""
        if self._cluster is None:
            raise RuntimeError("the cluster is not started")
        return self._cluster

    @property
    def namesrv_addr(self) -> str:
        """All nameservers as clients take them: `host:port`, joined by semicolons."""
        return self.cluster.namesrv_addr

    @property
    def broker_addrs(self) -> list[str]:
        """The `host:port` of every broker."""
        return self.cluster.broker_addrs

    def store_path(self, index: int = 0) -> Path:
        """Return the folder of one broker's store."""
        return self.cluster.store_path(index)

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic on every broker; clients find it when this returns."""
        self.call(self.cluster.create_topic(topic, queues))

    def restart_broker(self, index: int = 0) -> None:
        """Stop one broker cleanly and start it again with its store and its port."""
        self.call(self.cluster.restart_broker(index))

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Run a coroutine on the cluster's loop and wait for its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the cluster is not started")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def start(self) -> None:
        """Start the thread and the cluster in it; all servers are registered on return."""
        if self._loop is not None:
            raise RuntimeError("the cluster is started already")
        cluster = EmbeddedCluster(**self._arguments)
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run, args=(loop,), name="aerobee-cluster", daemon=True
        )
        self._thread.start()
        try:
            self.call(cluster.start())
        except BaseException:
            self._end()
            raise
        self._cluster = cluster

    def stop(self) -> None:
        """Stop the cluster cleanly, then the thread."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            try:
                self.call(cluster.stop())
            finally:
                self._end()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CALL_TIMEOUT_S)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is told to stop, and end what is left on it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)  # of a stop or a call that took too long
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CANCELLED_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
