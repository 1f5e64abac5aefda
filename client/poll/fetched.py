"""Batches that were fetched and wait to be polled, and those that the user works on."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from aerobee.client.compiled.choice import measure
from aerobee.client.poll.iterated import IteratedRun
from aerobee.client.poll.takers import Taker, taker
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage


class _Batch:
    """What one pull has brought, of which the first `at` messages were handed out."""

    __slots__ = ("at", "messages", "process")

    def __init__(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self.process = process
        self.messages = messages
        self.at = 0

    def rest(self) -> list[ReceivedMessage]:
        """Return what was not handed out."""
        return self.messages[self.at :] if self.at else self.messages


class _Handed(NamedTuple):
    """Messages of one pull that were handed out, and who took them."""

    messages: list[ReceivedMessage]
    taker: Taker | None


class FetchedMessages:
    """What a lite pull consumer holds between its pulls and its user.

    Batches are handed out in the order in which they came; those of dropped queues are left out.
    What is handed out is done when the user says so, or asks for more. An offset that the user has
    named counts for its queue until a message behind it is done.

    While one task alone asks for one message after the other, the batch that it gets is a run
    (`next_of_run`) and no other waits or is handed out of it; whoever does anything else ends that.
    """

    def __init__(self) -> None:
        self._messages = 0  # waiting, all batches together
        self._bytes = 0  # of their bodies
        self._run: IteratedRun | None = None
        self._batches: deque[_Batch] = deque()
        self._handed: dict[ProcessQueue, list[_Handed]] = {}
        self._named: dict[ProcessQueue, int] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._ends = False  # nothing more is handed out; what is, may be consumed
        self._quiet = asyncio.Event()  # it is, and who handed it back asks for more

    @property
    def messages(self) -> int:
        """How many messages wait to be handed out."""
        run = self._run
        return self._messages if run is None else self._messages + run.count - run.at

    @property
    def bytes(self) -> int:
        """The bytes of their bodies."""
        run = self._run
        return self._bytes if run is None else self._bytes + measure(run.rest())[0]

    def add(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let a batch wait for `take_batch` or `take_one`."""
        self._batches.append(_Batch(process, messages))
        self._count_in(messages)
        self._wake()

    def discard(self, process: ProcessQueue) -> None:
        """Forget the waiting batches of one queue."""
        self._end_run()
        for batch in self._batches:
            if batch.process is process:
                self._leave_out(batch)
        self._batches = deque(each for each in self._batches if each.process is not process)

    async def take_batch(self, seconds: float) -> list[ReceivedMessage]:
        """Hand out the next batch; empty when there is none in time, or after `close`."""
        if not self._has_some():
            loop = asyncio.get_running_loop()
            deadline = loop.time() + seconds
            while not await self._available(deadline - loop.time()):
                if self._closed or loop.time() >= deadline:
                    await asyncio.sleep(0)  # who asks in a loop lets the pulls have their turns
                    return []
        batch = self._batches.popleft()
        messages = batch.rest()
        self._hand(batch.process, messages)
        return messages.copy()

    async def take_one(self) -> ReceivedMessage | None:
        """Hand out the next message, however long it takes; None after `close`."""
        while not (self._has_some() or await self._available(None)):
            if self._closed or self._ends:
                return None
        batch, asking = self._batches[0], taker()
        if asking is not None and self._may_begin_run():
            self._batches.popleft()
            self._count_out(batch.rest())
            run = self._run = IteratedRun(batch.process, batch.messages, batch.at, asking)
            batch.process.begin_run(run)
            return run.take()
        message = batch.messages[batch.at]
        batch.at += 1
        if batch.at == len(batch.messages):
            self._batches.popleft()
        self._hand(batch.process, [message])
        return message

    def next_of_run(self) -> ReceivedMessage | None:
        """Hand out the next message where this task alone has asked for one after the other.

        The one before it counts as consumed. None: it has to ask as everybody does, `asks_again`
        and `take_one`.
        """
        run = self._run
        if run is None or run.at == run.count or run.process.dropped or taker() is not run.taker:
            return None
        return run.take()

    def count_handed(self) -> None:
        """What was handed out may be committed as consumed."""
        self._end_run()
        for process, handed in self._handed.items():
            for each in handed:
                self._done(process, each.messages)
            handed.clear()

    def all_done(self) -> None:
        """What was handed out is consumed, and its queues may go to somebody else."""
        self.count_handed()
        self.let_go()

    def asks_again(self) -> None:
        """What this task had, or one that has ended, is consumed: others may still be at work."""
        self._end_run()
        asking = taker()
        for process, handed in self._handed.items():
            working = []
            for each in handed:
                if each.taker is None or each.taker is asking or each.taker.done():
                    self._done(process, each.messages)
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
        self._end_run()
        handed = self._handed.get(process)
        if handed is None:
            return
        left: list[_Handed] = []
        for messages, who in handed:
            self._done(process, [each for each in messages if each.queue_offset < offset])
            behind = [each for each in messages if each.queue_offset >= offset]
            if behind:
                left.append(_Handed(behind, who))
        handed[:] = left
        self.let_go()

    def put_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Messages that were handed out wait again, before all others: nobody looked at them.

        What is not handed out any more stays as it is, and so do queues that were lost or sought.
        """
        self._end_run()
        back = {id(message) for message in messages}
        for process, handed in self._handed.items():
            mine = [each for taken, _ in handed for each in taken if id(each) in back]
            if mine and not process.dropped:
                self._batches.appendleft(_Batch(process, mine))
                self._count_in(mine)
            stay = [([m for m in taken if id(m) not in back], who) for taken, who in handed]
            handed[:] = [_Handed(taken, who) for taken, who in stay if taken]
        self.let_go()
        self._wake()

    def forget_handed(self) -> None:
        """What was handed out is not consumed, and nobody works on it any more."""
        self._end_run()
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
        self._end_run()
        self._ends = True
        self._wake()

    async def wait_quiet(self) -> None:
        """Wait, after `end`, until all is consumed, and somebody asks in vain for more."""
        await self._quiet.wait()

    def forget_working(self) -> None:
        """What a task still works on is not consumed; what one had that has ended is."""
        self._end_run()
        for process, handed in self._handed.items():
            for each in handed:
                if each.taker is not None and each.taker.done():
                    self._done(process, each.messages)
        self.forget_handed()

    @property
    def handed(self) -> int:
        """How many messages are handed out and not consumed."""
        self._end_run()
        return sum(len(each.messages) for handed in self._handed.values() for each in handed)

    # --- how far a queue is ---

    def name(self, process: ProcessQueue, offset: int) -> None:
        """The user says how far a queue is, be that ahead of what was handed out or behind it."""
        self._end_run()
        self._named[process] = offset

    def forget_named(self, process: ProcessQueue) -> None:
        """The queue is sought, or gone: what was said of it counts no longer."""
        self._named.pop(process, None)

    def committable(self, process: ProcessQueue) -> int:
        """Return the offset to commit: the user's word, else all before it is consumed."""
        return self._named.get(process, process.committable)

    # --- within ---

    def _hand(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._count_out(messages)
        handed = self._handed.get(process)
        if handed is None:
            handed = self._handed[process] = []
            process.begun()
        handed.append(_Handed(messages, taker()))  # the user may work on several at a time

    def _done(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        process.done_all(messages)
        named = self._named.get(process)
        if named is not None and messages and messages[-1].queue_offset >= named:
            del self._named[process]

    def _has_some(self) -> bool:
        """Say whether there is a batch to hand out; those of queues that were lost are none."""
        self._end_run()  # what is left of it is for whoever comes first
        batches = self._batches
        while batches and batches[0].process.dropped:
            self._leave_out(batches.popleft())
        return bool(batches) and not (self._closed or self._ends)

    async def _available(self, seconds: float | None) -> bool:
        """Wait for the next batch, for so long; return whether there is one."""
        if self._ends and not self._handed:
            self._quiet.set()
        lasts = not self._ends if seconds is None else seconds > 0
        if not self._has_some() and lasts and not self._closed:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append(waiter)
            timer = None if seconds is None else loop.call_later(seconds, _end, waiter)
            try:
                await waiter
            finally:
                if timer is not None:
                    timer.cancel()
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self._has_some()

    def _leave_out(self, batch: _Batch) -> None:
        """Count a batch no longer."""
        self._count_out(batch.rest())

    def _count_in(self, messages: list[ReceivedMessage]) -> None:
        self._messages += len(messages)
        self._bytes += measure(messages)[0]

    def _count_out(self, messages: list[ReceivedMessage]) -> None:
        self._messages -= len(messages)
        self._bytes -= measure(messages)[0]

    def _may_begin_run(self) -> bool:
        """Say whether whoever asks is alone, and nobody has named an offset."""
        return not self._handed and not self._named

    def _end_run(self) -> None:
        """Go on without a run: its rest waits, before all others; its last message is handed out.

        Nothing else is handed out while there is a run, nor does its queue have a named offset.
        """
        run = self._run
        if run is None:
            return
        self._run = None
        process = run.process
        run.book()
        process.end_run(run)  # its `finished` comes when the last message is consumed
        self._handed[process] = [_Handed([run.messages[run.at - 1]], run.taker)]
        if rest := run.rest():
            self._batches.appendleft(_Batch(process, rest))
            self._count_in(rest)

    def _wake(self) -> None:
        for waiter in self._waiters:
            _end(waiter)
        self._waiters.clear()


def _end(waiter: asyncio.Future[None]) -> None:
    """Let somebody wait no longer."""
    if not waiter.done():
        waiter.set_result(None)
