"""Concurrent consumption: many handlers at a time, each queue's begun in the order of offsets."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from aerobee.client.handlers import Handler, failure
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.failures import Failures
from aerobee.client.push.handling import ConsumeRequest, Handling, HandlingTerms, Running, Settled
from aerobee.client.push.workers import TURN_S
from aerobee.client.received import ReceivedMessage

log = logging.getLogger(__name__)

EXPIRED_MAX: Final = 16  # given back of each queue in a round
EXPIRED_DELAY_LEVEL: Final = 3


class HandlerPool(Handling[ConsumeRequest]):
    """Calls handlers, up to `concurrency` at a time (ConsumeMessageConcurrentlyService.java).

    What fails is given back; what nobody takes is handled again here after `redeliver_delay_ms`,
    and its queue's offset waits for it. A handler counts as running until all that is done.
    """

    def __init__(
        self, terms: HandlingTerms, failures: Failures, settled: Settled | None = None
    ) -> None:
        super().__init__(terms, failures, settled)
        self._redeliver_delay_s = terms.settings.redeliver_delay_ms / 1000

    def submit(
        self,
        process: ProcessQueue,
        handler: Handler,
        counters: TopicCounters,
        messages: list[ReceivedMessage],
    ) -> None:
        """Let `messages` be handled; they belong to `process`, which learns when each is done."""
        self._add(ConsumeRequest(process, handler, counters, messages))

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
        self, work: ConsumeRequest, messages: list[ReceivedMessage], answer: object
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
        again = await self._failures.give_back(rest, later.delay_level) if rest else []
        for message in rest:
            if message not in again:
                process.done(message)
        for message in again:
            message.reconsume_times += 1
        return self._again(work, again)

    def _again(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> int | None:
        process = work.process
        rest = [message for message in messages if process.holds(message)]
        if rest and not process.dropped:
            redelivery = ConsumeRequest(process, work.handler, work.counters, rest)
            self._add_later(redelivery, self._redeliver_delay_s)
        return None


class MessageExpiry:
    """Looks at the oldest messages of the owned queues (ProcessQueue.cleanExpiredMsg).

    One that has been in its handler's hands for more than the consume time-out goes back to the
    broker and counts as done here. Its handler is not stopped; what it answers in the end changes
    nothing any more, and waits while the message is on its way. Who gives the queue up waits, too.
    """

    def __init__(
        self, running: Sequence[Running], failures: Failures, consume_timeout_ms: int
    ) -> None:
        self._running = running
        self._failures = failures
        self._timeout_s = consume_timeout_ms / 1000

    async def sweep(self, queues: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Give back up to EXPIRED_MAX messages of each queue."""
        for process in list(queues.values()):
            for _ in range(EXPIRED_MAX):
                head = self._expired_head(process)
                if head is None or not await self._expire(process, *head):
                    break

    async def _expire(
        self, process: ProcessQueue, running: Running, message: ReceivedMessage
    ) -> bool:
        """Give a message back; False where no broker takes it."""
        expiring = running.expiring = asyncio.get_running_loop().create_future()
        process.begun()
        try:
            if await self._failures.give_back([message], EXPIRED_DELAY_LEVEL):
                return False
            process.done(message)
        finally:
            expiring.set_result(None)
            process.finished()
        log.warning(
            "handler takes too long, message given back queue=%s offset=%d message_id=%s",
            message.queue,
            message.queue_offset,
            message.message_id,
        )
        return True

    def _expired_head(self, process: ProcessQueue) -> tuple[Running, ReceivedMessage] | None:
        oldest = process.committable
        before = asyncio.get_running_loop().time() - self._timeout_s
        for running in self._running:
            if running.settling or running.process is not process or process.dropped:
                continue
            if running.since_s < before:
                for message in running.messages:
                    if message.queue_offset == oldest:
                        return running, message
        return None
