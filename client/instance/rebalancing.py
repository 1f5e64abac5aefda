"""When the groups of an instance share their queues anew, and in which order they lose and gain."""

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any, Final

from aerobee.client.instance.consumer import Consumer
from aerobee.client.settings import ClientSettings

log = logging.getLogger(__name__)

ROUNDS_PER_GAP: Final = 10  # on request


class RebalanceService:
    """Rounds on request, every 20 s, and every second while shares are unknown.

    RebalanceService.java leaves a second between any two rounds; here a few may follow each other,
    so that a member gives up its queues before another one takes them over. A round begins losses
    and gains and waits for neither: gains wait for the losses of all groups by `released`.
    """

    def __init__(self, settings: ClientSettings, consumers: dict[str, Consumer]) -> None:
        self.joining: set[str] = set()  # groups of which not all brokers have heard yet
        self._leaving: set[str] = set()
        self._consumers = consumers
        self._interval_s = settings.rebalance_interval_ms / 1000
        self._gap_s = settings.rebalance_gap_ms / 1000
        self._wanted = asyncio.Event()
        self._now = asyncio.Event()
        self._releases: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def soon(self, *, at_once: bool = False) -> None:
        """Start a round as soon as the gap after the last ones allows, or at once."""
        self._wanted.set()
        if at_once:
            self._now.set()

    def later(self, seconds: float | None = None) -> None:
        """Start a round after so long (default: the gap), or with one that comes earlier."""
        loop = asyncio.get_running_loop()
        due = loop.time() + (self._gap_s if seconds is None else seconds)
        if self._timer is not None:
            if loop.time() <= self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self.soon)

    def releasing(self, task: asyncio.Task[Any]) -> None:
        """Let gains wait for the end of this task, which gives up a queue."""
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def released(self) -> None:
        """Wait until no group of this client has a queue left that it has lost."""
        while self._releases:
            await asyncio.wait(self._releases)

    async def leave(self, consumer: Consumer) -> None:
        """Let a consumer give up all its queues; no round hands it another one.

        Rounds of the other groups go on meanwhile: its handlers may take their time. Heartbeats
        name it until the end: brokers judge its last commits as those of a member.
        """
        self._leaving.add(consumer.group)  # a round that is under way finds that it wants nothing
        try:
            if consumer.ownership is not None:
                await consumer.ownership.release_all()
        finally:
            self.forget(consumer)

    def forget(self, consumer: Consumer) -> None:
        """Have no such consumer any more, whatever it still owns; nothing is awaited."""
        if consumer.ownership is not None:
            consumer.ownership.abandon()
        if self._consumers.get(consumer.group) is consumer:
            del self._consumers[consumer.group]
            self.joining.discard(consumer.group)
            self._leaving.discard(consumer.group)

    async def run(self) -> None:
        """Go on for as long as the instance lives."""
        loop = asyncio.get_running_loop()
        wait_s = self._interval_s
        ended: deque[float] = deque(maxlen=ROUNDS_PER_GAP)
        while True:
            await _wait(self._wanted, wait_s)
            if len(ended) == ROUNDS_PER_GAP:
                await _wait(self._now, ended[0] + self._gap_s - loop.time())
            self._wanted.clear()
            self._now.clear()
            balanced = False
            try:
                balanced = await self._rebalance()
            except Exception:
                log.exception("rebalance failed")
            ended.append(loop.time())
            wait_s = self._interval_s if balanced else self._gap_s

    async def _rebalance(self) -> bool:
        members = [
            consumer.ownership
            for consumer in self._consumers.values()
            if consumer.ownership is not None and consumer.group not in self.joining | self._leaving
        ]
        planned = await asyncio.gather(*(ownership.plan() for ownership in members))
        for ownership in members:
            ownership.release()
        for ownership in members:
            ownership.take()
        return all(planned)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or time is up."""
    if seconds > 0 and not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
