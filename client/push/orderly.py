"""Orderly consumption: each queue's messages one after the other, whatever they answer."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from aerobee.client.handlers import Handler, failure
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.failures import Failures
from aerobee.client.push.handling import ConsumeRequest, Handling, HandlingTerms, Running, Settled
from aerobee.client.push.workers import TURN_S
from aerobee.client.received import ReceivedMessage

SUSPEND_MS_MIN: Final = 10
SUSPEND_MS_MAX: Final = 30_000
LOCK_LOOK_MS: Final = 100  # how often a queue with messages looks whether it is locked again


class Lane:
    """One queue's messages in their order. At most one worker is in it at a time.

    A queue that is lost and comes back keeps its lane: what is fetched anew waits there for a
    handler that has not ended yet (MessageQueueLock.java).
    """

    __slots__ = ("queue", "works")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.works: deque[ConsumeRequest] = deque()


class OrderlyPool(Handling[Lane]):
    """Calls handlers, one at a time for each queue (ConsumeMessageOrderlyService.java).

    A queue whose handler fails rests for a moment and goes on with the same messages; one that has
    failed `failures.times_max` times is given up. While `locked` says no, nothing is begun. A
    worker leaves a queue for another one after `continuous_ms_max`.
    """

    def __init__(
        self,
        terms: HandlingTerms,
        failures: Failures,
        locked: Callable[[MessageQueue], bool],
        settled: Settled | None = None,
    ) -> None:
        super().__init__(terms, failures, settled)
        self._locked = locked
        self._suspend_ms = terms.settings.suspend_ms
        self._continuous_s = terms.settings.continuous_ms_max / 1000
        self._lanes: dict[MessageQueue, Lane] = {}  # a worker is in them, or will come

    def submit(
        self,
        process: ProcessQueue,
        handler: Handler,
        counters: TopicCounters,
        messages: list[ReceivedMessage],
    ) -> None:
        """Let `messages` be handled after those of their queue that came before."""
        work, queue = ConsumeRequest(process, handler, counters, messages), messages[0].queue
        if (lane := self._lanes.get(queue)) is not None:
            lane.works.append(work)
            return
        lane = self._lanes[queue] = Lane(queue)
        lane.works.append(work)
        self._add(lane)

    def forget(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let go of a queue that is lost."""
        if (lane := self._lanes.get(queue)) is not None:
            lane.works = deque(work for work in lane.works if work.process is not process)

    def _waiting(self) -> int:
        return sum(
            len(work.messages) - work.at for lane in self._lanes.values() for work in lane.works
        )

    async def _serve(self, running: Running) -> None:
        ready = self._ready
        while not self._ends(running):
            if not ready and not await self._park():
                return
            lane = ready.popleft()
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            rest_ms: int | None = self._suspend_ms  # where this worker ends in the lane
            try:
                rest_ms = await self._run(lane, running)
            finally:
                if rest_ms is None:
                    del self._lanes[lane.queue]
                else:
                    self._add_later(lane, rest_ms / 1000)

    def _ends(self, running: Running) -> bool:
        """Whether a worker is to end, though its handler may not have minded."""
        return self._closed or running.task.cancelling() > 0

    async def _run(self, lane: Lane, running: Running) -> int | None:
        """Handle a queue's messages; return after how many ms to go on, None if there are none."""
        clock = self._clock
        began = running.since_s = clock()
        turn_ends = began + TURN_S
        while lane.works:
            work = lane.works[0]
            if work.at == len(work.messages) or work.process.dropped:
                lane.works.popleft()
                continue
            if not self._locked(lane.queue):
                return LOCK_LOOK_MS
            if running.since_s - began > self._continuous_s or self._ends(running):
                return SUSPEND_MS_MIN
            rest_ms = await self._handle(work, work.take(), running)
            if rest_ms is not None and not work.process.dropped:
                return min(max(rest_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
            if running.since_s > turn_ends:
                await asyncio.sleep(0)
                running.since_s = clock()
                turn_ends = running.since_s + TURN_S
        return None

    async def _settle(
        self, work: ConsumeRequest, messages: list[ReceivedMessage], answer: object
    ) -> int | None:
        """Put what failed back to where it was."""
        later = failure(answer)
        succeeded = len(messages) if later is None else max(later.succeeded, 0)
        self._succeed(work, messages[:succeeded])
        failed = messages[succeeded:]
        if later is None or not failed:
            return None
        self._fail(work, failed)
        stay = await self._count_failures(work.process, failed)
        self._put_back(work, stay)
        if not stay:
            return None
        return self._suspend_ms if later.suspend_ms is None else later.suspend_ms

    def _again(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> int | None:
        stay = [message for message in messages if work.process.holds(message)]
        self._put_back(work, stay)
        return self._suspend_ms if stay else None

    def _put_back(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> None:
        """Let messages that were taken last be the next ones again."""
        work.at -= len(messages)
        work.messages[work.at : work.at + len(messages)] = messages

    async def _count_failures(
        self, process: ProcessQueue, messages: list[ReceivedMessage]
    ) -> list[ReceivedMessage]:
        """Give up what failed too often; return what has to be handled again."""
        stay = []
        for message in messages:
            spent = message.reconsume_times >= self._failures.times_max and not process.released
            if spent and await self._failures.give_up(message):
                process.done(message)
            else:
                message.reconsume_times += 1
                stay.append(message)
        return stay
