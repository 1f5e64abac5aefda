"""Sends traces in the background, and never at the cost of what is traced."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from aerobee.client.message import Message, SendResult
from aerobee.client.traces.batches import (
    CLOUD_TOPIC_PREFIX,
    TraceItem,
    WaitingTraces,
    trace_messages,
)
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)

SEND_TIMEOUT_MS: Final = 5_000
CLOSE_S: Final = 1.0  # what is not sent by then, at a close, is lost


class TraceSender(Protocol):
    """A producer, as far as traces need one; its own sends are not traced."""

    async def start(self) -> None:
        """Get ready."""
        ...

    async def send(self, message: Message, *, timeout_ms: int | None = None) -> SendResult:
        """Send one message."""
        ...

    async def close(self) -> None:
        """Say good-bye."""
        ...


class TraceDispatcher:
    """One background task that makes messages of traces and sends them (AsyncTraceDispatcher.java).

    Who appends never waits and never fails: what there is no room for is dropped and counted, as is
    what could not be sent (`failed`). The producer starts with the first trace. With `topic` ""
    (the channel CLOUD) each region has a topic of its own.
    """

    def __init__(self, make_sender: Callable[[], TraceSender], topic: str, batch_max: int) -> None:
        self._make_sender = make_sender
        self._topic = topic
        self._waiting = WaitingTraces(batch_max)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sender: TraceSender | None = None
        self._closing = False
        self._complaints = Complaints(steady_clock_ms, log, logging.INFO)
        self.sent = 0
        self.failed = 0

    @property
    def dropped(self) -> int:
        """How many traces there was no room for."""
        return self._waiting.dropped

    def append(self, item: TraceItem) -> None:
        """Have a trace sent, some time."""
        if self._closing:
            return
        if not self._waiting.add(item, monotonic()):
            self._complaints.tell("traces dropped, %d so far: too many wait", self.dropped)
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="traces")
        if self._waiting.due_s() == 0 or len(self._waiting) == 1:
            self._wake.set()

    async def close(self) -> None:
        """Send what waits, for CLOSE_S at most, and end; a later append does nothing."""
        self._closing = True
        self._wake.set()
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=CLOSE_S)
        finally:
            task.cancel()
            sender, self._sender = self._sender, None
            if sender is not None:
                with contextlib.suppress(AerobeeError, TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await sender.close()

    async def _run(self) -> None:
        while not (self._closing and not len(self._waiting)):
            self._wake.clear()
            due_s = self._waiting.due_s()
            pause_s = None if due_s is None else max(due_s - monotonic(), 0)
            if not self._closing and pause_s != 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
            groups = self._waiting.take(monotonic(), everything=self._closing)
            if groups and (sender := await self._started(groups)) is not None:
                await asyncio.gather(*(self._send(sender, group) for group in groups))

    async def _started(self, groups: list[list[TraceItem]]) -> TraceSender | None:
        """Return the producer; None where it does not start, and these are not sent."""
        if self._sender is None:
            sender = self._make_sender()
            try:
                await sender.start()
            except Exception as error:  # noqa: BLE001  as in `_send`
                self._not_sent(sum(map(_count, groups)), error)
                return None
            self._sender = sender
        return self._sender

    async def _send(self, sender: TraceSender, items: list[TraceItem]) -> None:
        """Send one group; whatever goes wrong is counted, and the next one is tried."""
        topic = self._topic or CLOUD_TOPIC_PREFIX + items[0].region
        try:
            for message in trace_messages(items, topic):
                await sender.send(message, timeout_ms=SEND_TIMEOUT_MS)
            self.sent += _count(items)
        except Exception as error:  # noqa: BLE001  tracing is no reason for anything to end
            self._not_sent(_count(items), error)

    def _not_sent(self, count: int, error: Exception) -> None:
        self.failed += count
        self._complaints.tell("traces not sent count=%d error=%s", count, error)


def _count(items: list[TraceItem]) -> int:
    return sum(len(item.traces) for item in items)
