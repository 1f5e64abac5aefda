"""Batches that were fetched and wait to be polled, and those that the user works on."""

import asyncio
from collections import deque
from typing import NamedTuple

from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage


def _bytes(messages: list[ReceivedMessage]) -> int:
    return sum(message.held_bytes for message in messages)


class _Handed(NamedTuple):
    """A message that was handed out, and the task that took it."""

    message: ReceivedMessage
    taker: asyncio.Task[object] | None


class FetchedMessages:
    """What a lite pull consumer holds between its pulls and its user.

    Batches are handed out in the order in which they came; those of dropped queues are left out.
    What is handed out is done when the user says so, or asks for more. An offset that the user has
    named counts for its queue until a message behind it is done.
    """

    def __init__(self) -> None:
        self.messages = 0  # waiting, all batches together
        self.bytes = 0  # of their bodies
        self._batches: deque[tuple[ProcessQueue, list[ReceivedMessage]]] = deque()
        self._handed: dict[ProcessQueue, list[_Handed]] = {}
        self._named: dict[ProcessQueue, int] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._ends = False  # nothing more is handed out; what is, may be consumed
        self._quiet = asyncio.Event()  # it is, and who handed it back asks for more

    def add(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let a batch wait for `take_batch` or `take_one`."""
        self._batches.append((process, messages))
        self.messages += len(messages)
        self.bytes += _bytes(messages)
        self._wake()

    def discard(self, process: ProcessQueue) -> None:
        """Forget the waiting batches of one queue."""
        kept = deque(batch for batch in self._batches if batch[0] is not process)
        self._batches = kept
        self.messages = sum(len(messages) for _, messages in kept)
        self.bytes = sum(_bytes(messages) for _, messages in kept)

    async def take_batch(self, seconds: float) -> list[ReceivedMessage]:
        """Hand out the next batch; empty when there is none in time, or after `close`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await self._available(deadline - loop.time()):
            if self._closed or loop.time() >= deadline:
                await asyncio.sleep(0)  # who asks in a loop lets the pulls have their turns
                return []
        process, messages = self._batches.popleft()
        self._hand(process, messages)
        return list(messages)

    async def take_one(self) -> ReceivedMessage | None:
        """Hand out the next message, however long it takes; None after `close`."""
        while not await self._available(None):
            if self._closed or self._ends:
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
        for process, handed in self._handed.items():
            for each in handed:
                self._done(process, each.message)
            handed.clear()

    def all_done(self) -> None:
        """What was handed out is consumed, and its queues may go to somebody else."""
        self.count_handed()
        self.let_go()

    def asks_again(self) -> None:
        """What this task had, or one that has ended, is consumed: others may still be at work."""
        asking = asyncio.current_task()
        for process, handed in self._handed.items():
            working = []
            for each in handed:
                if each.taker is None or each.taker is asking or each.taker.done():
                    self._done(process, each.message)
                else:
                    working.append(each)
            handed[:] = working
        self.let_go()

    def let_go(self) -> None:
        """Nobody works any more on queues of which all that was handed out is consumed."""
        for process in [each for each, handed in self._handed.items() if not handed]:
            del self._handed[process]
            process.finished()

    def done_before(self, process: ProcessQueue, offset: int) -> None:
        """What was handed out of one queue, up to `offset`, is consumed."""
        handed = self._handed.get(process)
        if handed is None:
            return
        for each in handed:
            if each.message.queue_offset < offset:
                self._done(process, each.message)
        handed[:] = [each for each in handed if each.message.queue_offset >= offset]
        self.let_go()

    def forget_handed(self) -> None:
        """What was handed out is not consumed, and nobody works on it any more."""
        handed, self._handed = self._handed, {}
        for process in handed:
            process.finished()

    def close(self) -> None:
        """Hand out nothing more; who waits gets nothing."""
        self._closed = True
        self.forget_handed()
        self._wake()

    def end(self) -> None:
        """Hand out nothing more: who iterates comes to the end, who polls waits in vain."""
        self._ends = True
        self._wake()

    async def wait_quiet(self) -> None:
        """Wait, after `end`, until all is consumed, and somebody asks in vain for more."""
        await self._quiet.wait()

    def forget_working(self) -> None:
        """What a task still works on is not consumed; what one had that has ended is."""
        for process, handed in self._handed.items():
            for each in handed:
                if each.taker is not None and each.taker.done():
                    self._done(process, each.message)
        self.forget_handed()

    @property
    def handed(self) -> int:
        """How many messages are handed out and not consumed."""
        return sum(map(len, self._handed.values()))

    # --- how far a queue is ---

    def name(self, process: ProcessQueue, offset: int) -> None:
        """The user says how far a queue is, be that ahead of what was handed out or behind it."""
        self._named[process] = offset

    def forget_named(self, process: ProcessQueue) -> None:
        """The queue is sought, or gone: what was said of it counts no longer."""
        self._named.pop(process, None)

    def committable(self, process: ProcessQueue) -> int:
        """Return the offset to commit: the user's word, else all before it is consumed."""
        return self._named.get(process, process.committable)

    # --- within ---

    def _hand(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self.messages -= len(messages)
        self.bytes -= _bytes(messages)
        handed = self._handed.get(process)
        if handed is None:
            handed = self._handed[process] = []
            process.begun()
        taker = asyncio.current_task()  # the user may work on several batches at a time
        handed += [_Handed(message, taker) for message in messages]

    def _done(self, process: ProcessQueue, message: ReceivedMessage) -> None:
        process.done(message)
        named = self._named.get(process)
        if named is not None and message.queue_offset >= named:
            del self._named[process]

    async def _available(self, seconds: float | None) -> bool:
        self._leave_out_dropped()
        idle = self._ends or not self._batches
        if self._ends and not self._handed:
            self._quiet.set()
        lasts = not self._ends if seconds is None else seconds > 0
        if idle and lasts and not self._closed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait([waiter], timeout=seconds)
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            self._leave_out_dropped()
        return bool(self._batches) and not (self._closed or self._ends)

    def _leave_out_dropped(self) -> None:
        """Forget batches of queues that were lost since they came."""
        while self._batches and self._batches[0][0].dropped:
            _, messages = self._batches.popleft()
            self.messages -= len(messages)
            self.bytes -= _bytes(messages)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
