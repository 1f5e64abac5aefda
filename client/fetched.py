"""Batches that were fetched and wait to be polled, and the one that the user works on."""

import asyncio
from collections import deque

from aerobee.client.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage


class Fetched:
    """What a lite pull consumer holds between its pulls and its user.

    Batches are handed out in the order in which they came; those of dropped queues are left out.
    What is handed out is done when the user says so, or asks for more.
    """

    def __init__(self) -> None:
        self.messages = 0  # waiting, all batches together
        self._batches: deque[tuple[ProcessQueue, list[ReceivedMessage]]] = deque()
        self._handed: list[ReceivedMessage] = []
        self._handed_of: ProcessQueue | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False

    def add(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let a batch wait for `take_batch` or `take_one`."""
        self._batches.append((process, messages))
        self.messages += len(messages)
        self._wake()

    def discard(self, process: ProcessQueue) -> None:
        """Forget the waiting batches of one queue."""
        kept = deque(batch for batch in self._batches if batch[0] is not process)
        self._batches = kept
        self.messages = sum(len(messages) for _, messages in kept)

    async def take_batch(self, seconds: float) -> list[ReceivedMessage]:
        """Hand out the next batch; empty when there is none in time, or after `close`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await self._available(deadline - loop.time()):
            if self._closed or loop.time() >= deadline:
                return []
        process, messages = self._batches.popleft()
        self._hand(process, messages)
        return list(messages)

    async def take_one(self) -> ReceivedMessage | None:
        """Hand out the next message, however long it takes; None after `close`."""
        while not await self._available(None):
            if self._closed:
                return None
        process, messages = self._batches[0]
        message = messages[0]
        if len(messages) == 1:
            self._batches.popleft()
        else:
            self._batches[0] = (process, messages[1:])
        self._hand(process, [message])
        return message

    def count_handed(self) -> None:
        """What was handed out may be committed as consumed."""
        if self._handed_of is not None:
            for message in self._handed:
                self._handed_of.done(message)
            self._handed = []

    def all_done(self) -> None:
        """What was handed out is consumed, and its queue may go to somebody else."""
        self.count_handed()
        self.forget_handed()

    def done_before(self, process: ProcessQueue, offset: int) -> None:
        """What was handed out of one queue, up to `offset`, is consumed."""
        if process is not self._handed_of:
            return
        rest = []
        for message in self._handed:
            if message.queue_offset < offset:
                process.done(message)
            else:
                rest.append(message)
        self._handed = rest
        if not rest:
            self.all_done()

    def forget_handed(self) -> None:
        """What was handed out is not consumed, and nobody works on it any more."""
        process, self._handed, self._handed_of = self._handed_of, [], None
        if process is not None:
            process.finished()

    def close(self) -> None:
        """Hand out nothing more; who waits gets nothing."""
        self._closed = True
        self.forget_handed()
        self._wake()

    def _hand(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self.messages -= len(messages)
        self._handed, self._handed_of = messages, process
        process.running += 1

    async def _available(self, seconds: float | None) -> bool:
        self._leave_out_dropped()
        if not self._batches and not self._closed and (seconds is None or seconds > 0):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait([waiter], timeout=seconds)
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            self._leave_out_dropped()
        return bool(self._batches) and not self._closed

    def _leave_out_dropped(self) -> None:
        """Forget batches of queues that were lost since they came."""
        while self._batches and self._batches[0][0].dropped:
            self.messages -= len(self._batches.popleft()[1])

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
