"""What concurrent and orderly consumption share: the call of a handler, and what it counts."""

import asyncio
import contextvars
import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from aerobee.client.handlers import Handler, Later, failure, means_nothing
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.failures import Failures
from aerobee.client.push.loop_watch import HELD_S, LoopWatch
from aerobee.client.push.workers import Workers
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import PushSettings
from aerobee.remoting.bodies import ConsumeDirectlyResult

log = logging.getLogger(__name__)

W = TypeVar("W")
Given = ReceivedMessage | list[ReceivedMessage]
"""What a handler gets: one message, or for a handler of batches a list."""
GIVEN: Final[contextvars.ContextVar[Given | None]] = contextvars.ContextVar("given", default=None)
"""What the calling handler got; tasks and threads that it starts inherit it."""


SETTLING_FAILED: Final = (
    "settling what a handler answered failed group=%s queue=%s offset=%d message_id=%s"
)


class HandlerStatistics(NamedTuple):
    """Counters of messages since the start, and what is at work now.

        handlers = consumer.statistics().handlers
        print(handlers.succeeded, handlers.failed, handlers.running, handlers.waiting)

    `running` handlers are called at the moment by so many of the `workers`; `waiting` messages are
    fetched and their handler has not begun.
    """

    succeeded: int
    failed: int
    running: int
    waiting: int
    workers: int


class HandlingCounts:
    """How many messages the handlers of one consumer have succeeded with, and failed."""

    __slots__ = ("failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0


class ConsumeRequest:
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

    def take(self) -> Given:
        """Return what the handler gets next."""
        batch, at = self.handler.batch, self.at
        if batch is None:
            self.at = at + 1
            return self.messages[at]
        given = self.messages[at : at + batch]  # of one pull, all of it where it is no more
        self.at = at + len(given)
        return given


class Running:
    """What one worker is doing: what its handler got, and since when."""

    __slots__ = ("_several", "expiring", "given", "process", "settling", "since_s", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.process: ProcessQueue | None = None  # None: nothing, or nobody waits for it
        self.given: Given = []
        self._several: list[ReceivedMessage] | None = None  # those in `given`, if it is a list
        self.since_s = 0.0
        self.settling = False  # the handler has ended, and what it answered is seen to
        self.expiring: asyncio.Future[None] | None = None  # one of the messages is being given back

    def take(self, process: ProcessQueue, given: Given) -> None:
        """Begin with what a handler gets; a list is its own from now on, and may be changed."""
        self.process, self.given, self.expiring = process, given, None
        self._several = given.copy() if isinstance(given, list) else None

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages, also where it is only one."""
        several = self._several
        return [self.given] if several is None else several  # type: ignore[list-item]


Settled = Callable[[ProcessQueue], Awaitable[None]]
"""Awaited after each call of a handler, with the queue of its messages."""


class HandlingTerms(msgspec.Struct, frozen=True):
    """In whose name, and how, the handlers of one consumer are called; `ordered`: one by one."""

    group: str
    settings: PushSettings
    hooks: Hooks
    ordered: bool = False


class Handling(Workers[W]):
    """Workers that call handlers; what these fail is left to `failures`."""

    def __init__(
        self, terms: HandlingTerms, failures: Failures, settled: Settled | None = None
    ) -> None:
        super().__init__(terms.settings.concurrency)
        self.running: list[Running] = []  # one for each worker
        self._group = terms.group
        self._hooks = terms.hooks if terms.hooks.consume else None
        self._consume_timeout_ms = terms.settings.consume_timeout_ms
        self._failures = failures
        self._settled = settled
        self._clock = asyncio.get_running_loop().time
        self._counts = HandlingCounts()
        self._watch = LoopWatch(terms.group, self.running)

    async def close(self) -> None:
        """Stop at once: nothing begins any more, and what runs is cancelled, but for the spared."""
        self._watch.stop()
        await super().close()

    def statistics(self) -> HandlerStatistics:
        """Return the counters."""
        self.book()
        running = sum(each.process is not None for each in self.running)
        return HandlerStatistics(
            self._counts.succeeded, self._counts.failed, running, self._waiting(), self._count
        )

    def book(self) -> None:
        """Count what workers have handled and not told yet."""
        for running in self.running:
            if running.process is not None:
                running.process.book()

    def spare_caller(self) -> None:
        """Wait no longer for the handler that calls this, if any: it waits for who would wait.

        Nor does `close` cancel it: its worker ends with it. Its messages are not done.
        """
        for running in self.running:
            if running.process is not None and running.given is GIVEN.get():
                running.process.finished()
                running.process = None
                self._spared.add(running.task)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        running = Running(task)
        self.running.append(running)
        self._waking = False
        try:
            await self._serve(running)
        finally:
            self.running.remove(running)

    @abstractmethod
    async def _serve(self, running: Running) -> None:
        """Take what is ready, as `_work` says, and keep in `running` what is done."""

    async def _handle(self, work: ConsumeRequest, given: Given, running: Running) -> int | None:
        """Call the handler and see to what it answers; return for how many ms the queue rests.

        An error that it raises is logged and means later; where it is this worker that is to end
        the messages are left to another. `running.since_s`, when the call began, moves on to when
        all that ended.
        """
        process, counters = work.process, work.counters
        running.take(process, given)
        GIVEN.set(given)
        process.begun()
        rest_ms = None
        try:
            try:
                answer = await (
                    work.handler.call(given)
                    if self._hooks is None
                    else self._call_hooked(self._hooks, work.handler, running)
                )
            except BaseException as error:
                if ends_worker(error):
                    raise
                answer = self._raised(running.messages[0])
            now = self._clock()
            counters.calls += 1
            counters.call_s += now - running.since_s
            if now - running.since_s > HELD_S:
                self._look_at(running.messages[0], running.since_s, now)
            running.since_s = now
            if answer is None and work.handler.batch is None:
                self._counts.succeeded += 1
                counters.succeeded += 1
                process.done(given, now)  # type: ignore[arg-type]  # one message
            else:
                process.handled(now)
                rest_ms = await self._see_to(work, running, answer)
                running.since_s = self._clock()
            if self._settled is not None:
                await self._settled(process)
        except Exception:
            log.exception(SETTLING_FAILED, *self.named(running.messages[0]))
            return self._again(work, running.messages)
        except BaseException:
            self._again(work, running.messages)
            raise
        finally:
            if running.process is process:  # else nobody waits for this handler
                running.process = None
                process.finished()
        return rest_ms

    async def _see_to(self, work: ConsumeRequest, running: Running, answer: object) -> int | None:
        """Settle what a handler answered, once and for all: what is expiring is gone first."""
        running.settling = True
        self._tell_nothing_meant(work.handler, running.messages[0], answer)
        try:
            if running.expiring is not None and failure(answer) is not None:
                await asyncio.wait([running.expiring])
            return await self._settle(work, running.messages, answer)
        finally:
            running.settling = False

    def forget(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let go of what is kept of a queue that is lost."""

    @abstractmethod
    def _again(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> int | None:
        """Let those of the messages that are not done be handled again here.

        Returns for how many ms the queue rests.
        """

    @abstractmethod
    async def _settle(
        self, work: ConsumeRequest, messages: list[ReceivedMessage], answer: object
    ) -> int | None:
        """Do with messages as their handler answered; return for how many ms the queue rests."""

    @abstractmethod
    def _waiting(self) -> int:
        """How many messages no handler has begun."""

    def _succeed(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> None:
        """Count messages as handled, so that the queue's offset may pass them."""
        self._counts.succeeded += len(messages)
        work.counters.succeeded += len(messages)
        work.process.done_all(messages)

    def _fail(self, work: ConsumeRequest, messages: list[ReceivedMessage]) -> None:
        self._counts.failed += len(messages)
        work.counters.failed += len(messages)

    async def _call_hooked(self, hooks: Hooks, handler: Handler, running: Running) -> object:
        messages = running.messages
        return await hooks.around(
            hooks.consuming(self._group, messages[0].queue, messages),
            handler.call(running.given),
            lambda answer: failure(answer) is not None,
            self._consume_timeout_ms,
        )

    def _tell_nothing_meant(
        self, handler: Handler, message: ReceivedMessage, answer: object
    ) -> None:
        """Say once of a handler that its answer is no word for anything, and what would be."""
        if handler.is_told or not means_nothing(answer):
            return
        handler.is_told = True
        log.warning(
            "handler of topic %s returned %.100r, which says nothing: its message is done. To have"
            " it again raise, or return ConsumeResult.LATER or Later(...); None says that all is"
            " well group=%s queue=%s offset=%d message_id=%s",
            message.topic,
            answer,
            *self.named(message),
        )

    def _look_at(self, message: ReceivedMessage, began_s: float, ended_s: float) -> None:
        """Have a call of a handler judged that took long: it may have held the loop."""
        if ended_s - began_s > HELD_S:
            self._watch.took_long(message.topic, began_s, ended_s - began_s)

    def named(self, message: ReceivedMessage) -> tuple[str, MessageQueue, int, str]:
        """Return what a line of the log says of a message."""
        return self._group, message.queue, message.queue_offset, message.message_id

    def _raised(self, message: ReceivedMessage) -> Later:
        log.exception(
            "handler failed group=%s queue=%s offset=%d message_id=%s", *self.named(message)
        )
        return Later()


def ends_worker(error: BaseException) -> bool:
    """Whether an error ends this task or the process, and not only something within a handler."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, (SystemExit, KeyboardInterrupt))


async def handle_directly(
    handler: Handler | None, message: ReceivedMessage, *, ordered: bool
) -> ConsumeDirectlyResult:
    """Give one message to its handler now, whoever owns its queue; nothing else follows from it.

    (ConsumeMessageService.consumeMessageDirectly)
    """
    began = time.monotonic()
    remark = None
    if handler is None:
        outcome, remark = "CR_THROW_EXCEPTION", f"topic {message.topic!r} is not subscribed here"
    else:
        try:
            answer = await handler.call(message if handler.batch is None else [message])
            outcome = "CR_SUCCESS" if failure(answer) is None else "CR_LATER"
        except Exception as error:
            outcome, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
            log.exception("handler failed message_id=%s, handled on demand", message.message_id)
    return ConsumeDirectlyResult(
        order=ordered,
        auto_commit=True,
        consume_result=outcome,
        remark=remark,
        spent_time_mills=int((time.monotonic() - began) * 1000),
    )
