"""Concurrent consumption: many handlers at a time, each queue's begun in the order of offsets."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aerobee.client.consume_statistics import TopicCounters
from aerobee.client.handlers import Handler, Later, failure
from aerobee.client.hooks import ConsumeContext, Hooks
from aerobee.client.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage
from aerobee.client.workers import TURN_S, Workers

log = logging.getLogger(__name__)

GiveBack = Callable[[list[ReceivedMessage], int], Awaitable[list[ReceivedMessage]]]
"""Gets failed messages and a delay level; returns those that have to be handled here again."""


class HandlerStatistics(NamedTuple):
    """Counters since the start; `waiting` messages are fetched and their handler has not begun."""

    succeeded: int
    failed: int
    running: int
    waiting: int
    workers: int


class Work:
    """Messages of one pull that wait for their handler."""

    __slots__ = ("at", "counters", "handler", "messages", "process")

    def __init__(
        self,
        process: ProcessQueue,
        handler: Handler,
        counters: TopicCounters,
        messages: list[ReceivedMessage],
    ) -> None:
        self.process = process
        self.handler = handler
        self.counters = counters
        self.messages = messages
        self.at = 0  # the next one to begin


class Running:
    """What one worker is doing: the messages in its handler's hands, and since when."""

    __slots__ = ("given", "process", "since_s")

    def __init__(self) -> None:
        self.process: ProcessQueue | None = None  # None: nothing
        self.given: ReceivedMessage | list[ReceivedMessage] = []
        self.since_s = 0.0

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages, also where it is only one."""
        return self.given if isinstance(self.given, list) else [self.given]


class HandlerPool(Workers[Work]):
    """Calls handlers, up to `concurrency` at a time (ConsumeMessageConcurrentlyService.java).

    What fails is offered to `give_back`; what comes back from there is handled again here after
    `redeliver_delay_ms`, and its queue's offset waits for it. `settled` is awaited after every
    call with the queue that got further. A handler counts as running until all that is done.
    """

    def __init__(
        self,
        group: str,
        concurrency: int,
        redeliver_delay_ms: int,
        give_back: GiveBack,
        *,
        hooks: Hooks | None = None,
        consume_timeout_ms: int = 0,
        settled: Callable[[ProcessQueue], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(concurrency)
        self.running: list[Running] = []  # one for each worker
        self._group = group
        self._redeliver_delay_s = redeliver_delay_ms / 1000
        self._give_back = give_back
        self._hooks = hooks if hooks is not None and hooks.consume else None
        self._consume_timeout_ms = consume_timeout_ms
        self._settled = settled
        self._clock = asyncio.get_running_loop().time
        self._succeeded = 0
        self._failed = 0

    def submit(
        self,
        process: ProcessQueue,
        handler: Handler,
        counters: TopicCounters,
        messages: list[ReceivedMessage],
    ) -> None:
        """Let `messages` be handled; they belong to `process`, which learns when each is done."""
        self._add(Work(process, handler, counters, messages))

    def statistics(self) -> HandlerStatistics:
        """Return the counters."""
        waiting = sum(len(work.messages) - work.at for work in self._ready)
        running = sum(each.process is not None for each in self.running)
        return HandlerStatistics(self._succeeded, self._failed, running, waiting, self._count)

    async def _work(self) -> None:
        ready, clock = self._ready, self._clock
        running = Running()
        self.running.append(running)
        self._waking = False
        now = clock()
        turn_ends = now + TURN_S
        while True:
            if not ready:
                await self._park()
                now = clock()
                turn_ends = now + TURN_S
            work = ready[0]
            if work.process.dropped:
                ready.popleft()
                continue
            at, batch = work.at, work.handler.batch
            given: ReceivedMessage | list[ReceivedMessage]
            if batch is None:
                given = work.messages[at]
                work.at = at = at + 1
            else:
                given = work.messages[at : at + batch]
                work.at = at = at + len(given)
            if at == len(work.messages):
                ready.popleft()
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            running.since_s = now
            running.given = given
            now = await self._handle(work, given, running)
            if now > turn_ends:
                await asyncio.sleep(0)
                now = clock()
                turn_ends = now + TURN_S

    async def _handle(
        self, work: Work, given: ReceivedMessage | list[ReceivedMessage], running: Running
    ) -> float:
        """Call the handler and see to what it answers; return the time."""
        process, counters = work.process, work.counters
        running.process = process
        process.running += 1
        try:
            try:
                answer = await (
                    work.handler.call(given) if self._hooks is None else self._hooked(work, running)
                )
            except (Exception, asyncio.CancelledError) as error:
                if cancels_worker(error):
                    raise
                answer = self._raised(running)
            now = self._clock()
            process.last_handled = now
            counters.calls += 1
            counters.call_s += now - running.since_s
            if answer is None and not isinstance(given, list):
                self._succeeded += 1
                counters.succeeded += 1
                process.done(given)
            else:
                await self._settle(work, running.messages, failure(answer))
                now = self._clock()
            if self._settled is not None:
                await self._settled(process)
            return now
        finally:
            running.process = None
            process.finished()

    async def _settle(
        self, work: Work, messages: list[ReceivedMessage], later: Later | None
    ) -> None:
        """Count what succeeded as done, and give back the others."""
        process, counters = work.process, work.counters
        succeeded = len(messages) if later is None else max(later.succeeded, 0)
        for message in messages[:succeeded]:
            self._succeeded += 1
            counters.succeeded += 1
            process.done(message)
        rest = messages[succeeded:]
        if later is None or not rest:
            return
        self._failed += len(rest)
        counters.failed += len(rest)
        # what the cleaner has given back, or the next owner has got, is not given back again
        rest = [] if process.released else [each for each in rest if process.holds(each)]
        again = await self._give_back(rest, later.delay_level) if rest else []
        for message in rest:
            if message not in again:
                process.done(message)
        if again and not process.dropped:
            for message in again:
                message.reconsume_times += 1
            work = Work(process, work.handler, counters, again)
            self._add_later(work, self._redeliver_delay_s)

    async def _hooked(self, work: Work, running: Running) -> object:
        messages = running.messages
        return await self._hooks.around(  # type: ignore[union-attr]
            ConsumeContext(self._group, messages[0].queue, messages),
            work.handler.call(running.given),
            lambda answer: failure(answer) is not None,
            self._consume_timeout_ms,
        )

    def _raised(self, running: Running) -> Later:
        message = running.messages[0]
        log.exception(
            "handler failed group=%s queue=%s offset=%d message_id=%s",
            self._group,
            message.queue,
            message.queue_offset,
            message.message_id,
        )
        return Later()


def cancels_worker(error: BaseException) -> bool:
    """Whether it is this task that is cancelled, and not something within the user's handler."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
