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
from aerobee.client.push.handling import (
    GIVEN,
    SETTLING_FAILED,
    ConsumeRequest,
    Handling,
    HandlingTerms,
    Running,
    Settled,
    ends_worker,
)
from aerobee.client.push.runs import HandledRun
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
        alone = self._hooks is None and self._settled is None  # nobody looks between two messages
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
            if alone and work.handler.batch is None:
                await self._handle_run(work, running, turn_ends)
                if running.since_s > turn_ends:
                    turn_ends = await self._turn(running)
                continue
            given = work.take()
            if work.at == len(work.messages):
                ready.popleft()
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            await self._handle(work, given, running)
            if running.since_s > turn_ends:
                turn_ends = await self._turn(running)

    async def _turn(self, running: Running) -> float:
        """Give the event loop a turn; return when the next one is to come."""
        await asyncio.sleep(0)
        running.since_s = self._clock()
        return running.since_s + TURN_S

    async def _handle_run(self, work: ConsumeRequest, running: Running, turn_ends: float) -> None:
        """Call the handler for one message after the other, and see to what one of them answers.

        It ends with the pull, the turn, or the first answer that means later.
        """
        process = work.process
        run = HandledRun(work, self._counts, running.since_s)
        running.take(process, work.messages[work.at])
        process.begin_run(run)
        try:
            answer = await self._call_each(work, running, run, turn_ends)
            if answer is not None:
                run.book()
                now = running.since_s
                work.counters.calls += 1
                work.counters.call_s += now - run.ended_s
                self._look_at(running.messages[0], run.ended_s, now)
                process.handled(now)
                await self._see_to(work, running, answer)
                running.since_s = self._clock()
        except Exception:
            log.exception(SETTLING_FAILED, *self.named(running.messages[0]))
            self._again(work, running.messages)
        except BaseException:
            run.book()
            self._again(work, running.messages)
            raise
        finally:
            run.book()
            process.end_run(run)
            if running.process is process:  # else nobody waits for this handler
                running.process = None
                process.finished()

    async def _call_each(
        self, work: ConsumeRequest, running: Running, run: HandledRun, turn_ends: float
    ) -> object:
        """Return the first answer that means later, None where there is none up to the end.

        `run` is left with what is not booked yet.
        """
        ready, clock, process = self._ready, self._clock, work.process
        messages, call, ignored = work.messages, work.handler.call, running.task.cancelling
        count = len(messages)
        while True:
            at = work.at
            if at != run.next:  # others have taken some: what they do is theirs
                run.skip_to(at)
            message = messages[at]
            work.at = at + 1
            if work.at == count:
                ready.popleft()
            running.given, running.expiring = message, None
            GIVEN.set(message)
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            try:
                answer = await call(message)
            except BaseException as error:
                if ends_worker(error):
                    raise
                answer = self._raised(message)
            running.since_s = now = clock()
            if answer is not None:
                if failure(answer) is not None:
                    return answer
                self._tell_nothing_meant(work.handler, message, answer)
            if now > turn_ends or process.dropped or self._closed or ignored():
                self._look_at(message, run.ended_s, now)  # what holds the loop ends the turn, too
                run.ended_s, run.next = now, at + 1
                return None
            run.ended_s, run.next = now, at + 1
            if not ready or ready[0] is not work:
                return None

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
