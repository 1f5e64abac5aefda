"""Concurrent consumption: many handlers at a time, each queue's begun in the order of offsets."""

import asyncio
from collections.abc import Awaitable, Callable

from aerobee.client.handlers import Handler, failure
from aerobee.client.hooks import Hooks
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.handling import Handling, Running, Work
from aerobee.client.push.workers import TURN_S
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import PushSettings

GiveBack = Callable[[list[ReceivedMessage], int], Awaitable[list[ReceivedMessage]]]
"""Gets failed messages and a delay level; returns those that have to be handled here again."""


class HandlerPool(Handling[Work]):
    """Calls handlers, up to `concurrency` at a time (ConsumeMessageConcurrentlyService.java).

    What fails is offered to `give_back`; what comes back from there is handled again here after
    `redeliver_delay_ms`, and its queue's offset waits for it. A handler counts as running until
    all that is done.
    """

    def __init__(
        self,
        group: str,
        settings: PushSettings,
        give_back: GiveBack,
        hooks: Hooks,
        settled: Callable[[ProcessQueue], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(group, settings, hooks, settled)
        self._give_back = give_back
        self._redeliver_delay_s = settings.redeliver_delay_ms / 1000

    def submit(
        self,
        process: ProcessQueue,
        handler: Handler,
        counters: TopicCounters,
        messages: list[ReceivedMessage],
    ) -> None:
        """Let `messages` be handled; they belong to `process`, which learns when each is done."""
        self._add(Work(process, handler, counters, messages))

    def _waiting(self) -> int:
        return sum(len(work.messages) - work.at for work in self._ready)

    async def _serve(self, running: Running) -> None:
        ready, clock = self._ready, self._clock
        running.since_s = clock()
        turn_ends = running.since_s + TURN_S
        ignored = running.task.cancelling  # a handler may go on though its worker is to end
        while not (self._closed or ignored()):
            if not ready:
                if not await self._park():
                    return
                running.since_s = clock()
                turn_ends = running.since_s + TURN_S
            work = ready[0]
            if work.process.dropped:
                ready.popleft()
                continue
            given = work.take()
            if work.at == len(work.messages):
                ready.popleft()
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            await self._handle(work, given, running)
            if running.since_s > turn_ends:
                await asyncio.sleep(0)
                running.since_s = clock()
                turn_ends = running.since_s + TURN_S

    async def _settle(
        self, work: Work, messages: list[ReceivedMessage], answer: object
    ) -> int | None:
        """Count what succeeded as done, and give back the others; the queue never rests."""
        process, later = work.process, failure(answer)
        succeeded = len(messages) if later is None else max(later.succeeded, 0)
        self._succeed(work, messages[:succeeded])
        rest = messages[succeeded:]
        if later is None or not rest:
            return None
        self._fail(work, rest)
        # what the cleaner has given back, or the next owner has got, is not given back again
        rest = [] if process.released else [each for each in rest if process.holds(each)]
        again = await self._give_back(rest, later.delay_level) if rest else []
        for message in rest:
            if message not in again:
                process.done(message)
        for message in again:
            message.reconsume_times += 1
        return self._again(work, again)

    def _again(self, work: Work, messages: list[ReceivedMessage]) -> int | None:
        process = work.process
        rest = [message for message in messages if process.holds(message)]
        if rest and not process.dropped:
            redelivery = Work(process, work.handler, work.counters, rest)
            self._add_later(redelivery, self._redeliver_delay_s)
        return None
