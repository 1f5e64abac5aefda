"""Runs the users' handlers: a bounded number at a time, each queue's in the order of offsets."""

import asyncio
import enum
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aerobee.client.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

TURN_S: Final = 0.002  # handlers that never wait give the event loop a turn after so long


class ConsumeResult(enum.Enum):
    """What a handler says of its message (ConsumeConcurrentlyStatus.java); None means SUCCESS."""

    SUCCESS = "CONSUME_SUCCESS"
    LATER = "RECONSUME_LATER"


Handler = Callable[[ReceivedMessage], Awaitable[ConsumeResult | None]]
"""An async function that handles one message; raising an error means LATER."""


class HandlerStatistics(NamedTuple):
    """Counters since the start; `waiting` messages are fetched and their handler has not begun."""

    succeeded: int
    failed: int
    running: int
    waiting: int
    workers: int


class _Batch:
    """Messages of one pull that wait for their handlers."""

    __slots__ = ("at", "handler", "messages", "process")

    def __init__(
        self, process: ProcessQueue, handler: Handler, messages: list[ReceivedMessage]
    ) -> None:
        self.process = process
        self.handler = handler
        self.messages = messages
        self.at = 0  # the next one to begin


class HandlerPool:
    """Up to `concurrency` workers that take messages in the order in which they arrived.

    A worker handles one message after the other without a task of its own for each; while its
    handler waits for something, the next worker goes on. A failed message is handed to its handler
    again after `redeliver_delay_ms`, as often as it takes: its queue's committed offset does not
    pass it (ConsumeMessageConcurrentlyService.submitConsumeRequestLater).
    """

    def __init__(self, concurrency: int, redeliver_delay_ms: int) -> None:
        self.succeeded = 0
        self.failed = 0
        self._concurrency = concurrency
        self._redeliver_delay_s = redeliver_delay_ms / 1000
        self._ready: deque[_Batch] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._waking = False  # a worker was woken and has not run yet
        self._workers = 0
        self._running = 0
        self._tasks = Tasks()
        self._redeliveries: set[asyncio.TimerHandle] = set()

    def submit(
        self, process: ProcessQueue, handler: Handler, messages: list[ReceivedMessage]
    ) -> None:
        """Let `messages` be handled; they belong to `process`, which learns when each is done."""
        self._ready.append(_Batch(process, handler, messages))
        self._wake()

    async def close(self) -> None:
        """Stop at once: nothing begins any more, and what runs is cancelled."""
        for timer in self._redeliveries:
            timer.cancel()
        self._redeliveries.clear()
        self._ready.clear()
        await self._tasks.close()

    def statistics(self) -> HandlerStatistics:
        """Return the counters."""
        waiting = sum(len(batch.messages) - batch.at for batch in self._ready)
        return HandlerStatistics(self.succeeded, self.failed, self._running, waiting, self._workers)

    def _wake(self) -> None:
        """See to it that one more worker looks for messages."""
        if self._waking:
            return
        if self._idle:
            self._waking = True
            self._idle.pop().set_result(None)
        elif self._workers < self._concurrency:
            self._waking = True
            self._workers += 1
            self._tasks.start(self._work(), "handler")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        ready = self._ready
        clock = loop.time
        turn_ends = clock() + TURN_S
        self._waking = False
        while True:
            while not ready:
                parked = loop.create_future()
                self._idle.append(parked)
                await parked
                self._waking = False
                turn_ends = clock() + TURN_S
            batch = ready[0]
            message = batch.messages[batch.at]
            batch.at += 1
            if batch.at == len(batch.messages):
                ready.popleft()
            process = batch.process
            if process.dropped:
                continue
            if ready and not self._waking:
                self._wake()  # this worker may be about to wait
            await self._handle(process, batch.handler, message)
            if clock() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = clock() + TURN_S

    async def _handle(
        self, process: ProcessQueue, handler: Handler, message: ReceivedMessage
    ) -> None:
        process.running += 1
        self._running += 1
        try:
            result = await handler(message)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the pool is closing; else something within the handler was cancelled
            log.exception(
                "handler failed queue=%s offset=%d message_id=%s",
                message.queue,
                message.queue_offset,
                message.message_id,
            )
            result = ConsumeResult.LATER
        finally:
            self._running -= 1
            process.finished()
        if result is not ConsumeResult.LATER:
            self.succeeded += 1
            process.done(message)
        else:
            self.failed += 1
            self._redeliver(process, handler, message)

    def _redeliver(self, process: ProcessQueue, handler: Handler, message: ReceivedMessage) -> None:
        message.reconsume_times += 1

        def again() -> None:
            self._redeliveries.discard(timer)
            if not process.dropped:
                self.submit(process, handler, [message])

        timer = asyncio.get_running_loop().call_later(self._redeliver_delay_s, again)
        self._redeliveries.add(timer)


def as_handler(function: Callable[[ReceivedMessage], object]) -> Handler:
    """Return an async handler: `function` itself, or the plain function run in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    ):
        return function  # type: ignore[return-value]

    async def in_thread(message: ReceivedMessage) -> ConsumeResult | None:
        result = await asyncio.to_thread(function, message)
        return result if isinstance(result, ConsumeResult) else None

    return in_thread
