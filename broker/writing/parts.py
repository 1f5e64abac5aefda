"""What appending needs, as a room: the store, its queues, the turn of the loop, who appends."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Self

from aerobee.broker.health.faults import Faults
from aerobee.broker.room import Room, Work
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.appender import Appender
from aerobee.broker.writing.firsts import Firsts
from aerobee.broker.writing.hooks import BrokerHooks
from aerobee.broker.writing.placing import BatchPlacer, HalfAppender, HalfOutcomes
from aerobee.broker.writing.queues import AckStyle, TopicQueues
from aerobee.broker.writing.tick import Tick
from aerobee.storage.store import MessageStore

EARLY: Final = 0.9  # of a flush interval: no flush is later than promised


class Writing(Room):
    """Made once by the broker; only the loop's thread touches what is in it.

    `store_host` is ip and port as records carry them, 8 or 20 bytes.
    """

    def __init__(
        self,
        store: MessageStore,
        queues: TopicQueues,
        tick: Tick,
        appender: Appender,
        store_host: bytes,
    ) -> None:
        self.store = store
        self.queues = queues
        self.tick = tick
        self.appender = appender
        self.store_host = store_host
        self.hooks = BrokerHooks(queues.forget_checks)
        self.halves: HalfAppender | None = None  # for the fast path
        self.outcomes: HalfOutcomes | None = None  # of transactions, where there are any
        self.firsts: Firsts | None = None  # of topics that store a retry once
        self.inner_batches: BatchPlacer | None = None  # of topics that store a batch as one record
        self._unwatch: list[Callable[[], object]] = []

    @classmethod
    def over(
        cls,
        loop: asyncio.AbstractEventLoop,
        live: Live,
        store: MessageStore,
        store_host: bytes,
        faults: Faults,
    ) -> Self:
        """Make it over an open store."""
        settings, tick = live.current, Tick(loop, store, faults)
        style = AckStyle(settings.region_id, settings.trace_on, store_host.hex().upper())
        queues = TopicQueues(store, style)
        live.on_change(queues.apply)
        return cls(store, queues, tick, Appender(store, tick), store_host)

    async def start(self) -> None:
        """Hear from the flusher and from the helper that prepares the log."""
        loop = asyncio.get_running_loop()
        for watched in (self.store.flusher, self.store.allocator):
            if (fd := watched.fileno()) >= 0:
                loop.add_reader(fd, watched.on_readable)
                self._unwatch.append(partial(loop.remove_reader, fd))

    async def stop(self) -> None:
        """Write what the last reads brought."""
        self.tick.commit()

    def close(self) -> OSError | None:
        """Close the log, after the tables and before those that keep what it says."""
        for undo in self._unwatch:
            undo()
        self.store.close()
        return None

    def background(self) -> Iterable[Work]:
        """Have the disk take what was written."""
        interval_s = self.store.settings.flush_interval_ms / 1000
        return (Work("flush", self.store.tick, interval_s * EARLY),)
