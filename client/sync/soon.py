"""Sends that are on their way while their thread goes on, and how many of them there may be."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from threading import RLock
from typing import Final, TypeAlias

from aerobee.client.errors import SendQueueFull
from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.sending.fast import SendHandle as Sent
from aerobee.client.sending.handles import HANDLE_BYTES
from aerobee.client.sending.producer import Producer
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.sync.calls import Call, Posted, wait_s
from aerobee.client.sync.loop_thread import LoopThread

MESSAGES_MAX: Final = 16_384
"""Sends of one producer that are on their way: more of them would not be faster, and the last would
have their turn when their time is up."""
MARK_MESSAGES: Final = 1_024
"""Of so many one is remembered, to be waited for where there are too many."""

How: TypeAlias = tuple[MessageQueue | None, str | int | None, QueueSelector | None, int | None]
"""Queue, key, selector and time of a send."""


class SendHandle:
    """A message on its way: `Producer.send_soon` returns it at once, the answer comes later.

        handle = producer.send_soon(message)
        result = handle.result()  # waits, and raises what `send` would; or handle.done, .error

    It has an outcome at the latest when the time of its send is over. Any number of threads may
    wait for it, and look at it.
    """

    __slots__ = ("_context", "_error", "_how", "_message", "_sends", "_sent", "_waiting")

    def __init__(
        self, sends: "SoonSends", message: Message, how: How, context: Context | None
    ) -> None:
        """Be made by a producer."""
        self._sends = sends
        self._message: Message | None = message
        self._how = how
        self._context = context
        self._sent: Sent | None = None  # from when the loop's thread has taken it
        self._error: BaseException | None = None  # why it never was
        self._waiting: Call[None] | None = None

    @property
    def done(self) -> bool:
        """Whether there is an outcome: it is stored, or has failed."""
        sent = self._sent
        return (sent is not None and sent.done) or self._error is not None or self._is_lost()

    @property
    def error(self) -> BaseException | None:
        """Why the message failed, what `result` raises; None while it has not."""
        sent = self._sent
        if sent is not None and sent.done:
            return sent.error
        self._is_lost()
        return self._error

    @property
    def queue(self) -> MessageQueue | None:
        """The queue that it goes to, as far as known; the result has where it went."""
        return self._how[0] if self._sent is None else self._sent.queue

    @property
    def message_id(self) -> str:
        """The client's id of the message; empty before its turn has come."""
        return "" if self._sent is None else self._sent.message_id

    def exception(self, timeout_ms: int | None = None) -> BaseException | None:
        """Wait until it is done; return why it failed, None where it is stored.

        TimeoutError where it is not done after `timeout_ms`, as for `result`.
        """
        self._wait(timeout_ms)
        return self.error

    def result(self, timeout_ms: int | None = None) -> SendResult:
        """Wait until it is done, and return where it went; raises what `send` raises.

        TimeoutError where it is not done after `timeout_ms` (default: the send's own time decides);
        the message stays on its way, also where Ctrl-C ends the wait. Raises InvalidUse where the
        answer can come no more, as in the child of a fork.
        """
        self._wait(timeout_ms)
        if (error := self.error) is not None:
            try:
                raise error
            finally:
                del self, error  # else the error's traceback would keep itself
        assert self._sent is not None
        return self._sent.result()

    def __repr__(self) -> str:
        if not self.done:
            return f"<SendHandle on its way queue={self.queue} id={self.message_id!r}>"
        return f"<SendHandle {'stored' if self.error is None else 'failed'} {self.message_id!r}>"

    def _is_lost(self) -> bool:
        """Whether the loop has ended, or is another process's: nobody answers any more."""
        if self._sends.thread.gone and self._error is None:
            self._error = self._sends.thread.lost()
        return self._error is not None

    def _wait(self, timeout_ms: int | None) -> None:
        seconds = wait_s(timeout_ms)
        if self.done:
            return
        thread = self._sends.thread
        thread.check_may_wait()
        call = self._waiting
        if call is None:  # two of them, by two threads, do no harm
            call = self._waiting = thread.call(self._answered())
        if not call.wait_for(seconds):
            raise TimeoutError(f"the send was not answered within {timeout_ms} ms")

    async def _answered(self) -> None:
        await self._sends.all_taken()
        if self._sent is not None:
            with suppress(Exception):
                await self._sent

    # --- for those who send it, in the loop's thread ---

    def _send(self, send: Callable[..., Sent]) -> None:
        """Give it to the asyncio producer; what that raises is its outcome, but a full queue."""
        queue, key, selector, timeout_ms = self._how
        try:
            if self._context is None:
                sent = send(
                    self._message, queue=queue, key=key, selector=selector, timeout_ms=timeout_ms
                )
            else:
                sent = self._context.run(
                    send, self._message, queue=queue, key=key, selector=selector,
                    timeout_ms=timeout_ms,
                )  # fmt: skip
        except SendQueueFull:
            raise
        except BaseException as error:  # noqa: BLE001  a selector's, say
            self._error = error
        else:
            self._sent = sent
        self._message = self._context = None

    def _refuse(self) -> None:
        """The loop has ended before it was taken."""
        self._message = self._context = None
        self._is_lost()


class SoonSends(Posted):
    """What one producer sends soon, from a start to its close: from its threads to the loop's.

    Messages lie in one deque, and the loop's thread is told of them once for all that are in there.
    What is held beyond that, and what becomes of it, the asyncio producer knows.
    """

    def __init__(self, thread: LoopThread, inner: Producer, *, hooked: bool) -> None:
        self.thread = thread
        self._inner = inner
        self._bytes_max = inner.settings.send_soon_bytes_max
        self._hooked = hooked
        self._lock = RLock()  # a signal's handler may send, in the middle of a send of its thread
        self._taken: deque[SendHandle] = deque()
        self._added_bytes = 0  # guarded by the lock
        self._given_bytes = 0  # to the asyncio producer, by the loop's thread
        self._given = 0
        self._posted = False
        self._marks: deque[Sent] = deque()  # one of many that were given, touched there alone
        self._stalled: Call[None] | None = None

    # --- from any thread ---

    @property
    def is_full(self) -> bool:
        """Whether who has one more waits."""
        return self.held_bytes >= self._bytes_max or self.held >= MESSAGES_MAX

    @property
    def held(self) -> int:
        """How many messages have no outcome yet."""
        return len(self._taken) + self._inner.held

    @property
    def held_bytes(self) -> int:
        """The bytes of these messages."""
        return self._added_bytes - self._given_bytes + self._inner.held_bytes

    def add(self, message: Message, how: How) -> SendHandle:
        """Take a message that was looked at; it is sent as it is now, whatever becomes of it."""
        message = message.__copy__()  # type: ignore[attr-defined]  # copy.copy takes three times it
        if message.properties:
            message.properties = dict(message.properties)
        handle = SendHandle(self, message, how, copy_context() if self._hooked else None)
        with self._lock:
            self._added_bytes += len(message.body) + HANDLE_BYTES
            self._taken.append(handle)
        if not self._posted:
            self._posted = True
            self.thread.post(self)
        return handle

    def wait_for_room(self, seconds: float | None) -> bool:
        """Wait until one more message may come; False where none may after `seconds`."""
        return not self.is_full or self.thread.call(self._room()).wait_at_most(seconds)

    def flush(self, seconds: float | None) -> bool:
        """Wait until nothing is on its way; False where something still is, after `seconds`."""
        return self.thread.call(self._flush()).wait_at_most(seconds)

    # --- in the loop's thread ---

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the asyncio producer what there is, as far as it takes it."""
        self._posted = False
        taken, send = self._taken, self._inner.send_soon
        for _ in range(len(taken)):
            handle = taken[0]
            size = len(handle._message.body) + HANDLE_BYTES  # type: ignore[union-attr]  # not sent
            try:
                handle._send(send)
            except SendQueueFull:  # threads that came at the same moment saw room for each
                if self._stalled is None or self._stalled.done:
                    self._stalled = self.thread.call(self.all_taken())
                break
            taken.popleft()
            self._given_bytes += size
            self._given += 1
            if not self._given % MARK_MESSAGES and handle._sent is not None:
                self._marks.append(handle._sent)

    def refuse(self) -> None:
        """The loop has ended: nothing is sent any more."""
        self._posted = False
        with suppress(IndexError):  # others may be here, too
            while True:
                self._taken.popleft()._refuse()

    async def all_taken(self) -> None:
        """Return when the asyncio producer has all that lies here now."""
        last = self._taken[-1] if self._taken else None
        while last is not None and last._message is not None:
            await self._inner.room()
            self.begin(asyncio.get_running_loop())

    async def _flush(self) -> None:
        await self.all_taken()
        await self._inner.flush()

    async def _room(self) -> None:
        while self.is_full:
            self.begin(asyncio.get_running_loop())
            await self._inner.room()
            if self.held_bytes < self._bytes_max:
                await self._fewer()
            await asyncio.sleep(0)

    async def _fewer(self) -> None:
        """Wait until about a quarter of what is on its way is done: room for a few is soon gone."""
        marks = self._marks
        while marks and marks[0].done:
            marks.popleft()
        if marks and self.is_full:
            with suppress(Exception):
                await marks[len(marks) // 4]
