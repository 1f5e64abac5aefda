"""A call from one thread that the loop's thread carries out: how it waits, ends, is given up."""

import asyncio
import contextvars
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aerobee.client.errors import InvalidUse, whole_number

if TYPE_CHECKING:
    from aerobee.client.sync.loop_thread import LoopThread

T = TypeVar("T")

GIVEN_UP_S: Final = 2.0
"""How long an interrupted caller waits for the end of what it has given up: it is cancelled."""


def wait_s(timeout_ms: int | None) -> float | None:
    """Return how long a caller waits, 0 being no time at all; raises InvalidUse for no number."""
    return None if timeout_ms is None else whole_number("timeout_ms", timeout_ms, 0) / 1000


class Posted(ABC):
    """What is put before the loop's thread, from any other."""

    __slots__ = ()

    @abstractmethod
    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do it, in the loop's thread."""

    @abstractmethod
    def refuse(self) -> None:
        """The loop has ended: nothing is done any more."""


class Note(Posted):
    """A plain function that the loop's thread is to call; nobody waits for it."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call it."""
        self._action()

    def refuse(self) -> None:
        """Nobody waits."""


class Call(Posted, Generic[T]):
    """One coroutine on its way through the loop's thread, in the context of who asked for it.

    A lock that its end releases is all that a caller waits on: a concurrent Future costs more than
    the rest of the call.
    """

    __slots__ = (
        "_answered", "_context", "_on_end", "_thread", "_unwanted", "_work", "done", "error",
        "given_up", "result", "task",
    )  # fmt: skip

    def __init__(
        self,
        thread: "LoopThread",
        work: Coroutine[Any, Any, T] | None,
        on_end: Callable[[], None] | None = None,
        unwanted: Callable[[T], None] | None = None,
    ) -> None:
        self._thread = thread
        self._work = work
        self._on_end = on_end
        self._unwanted = unwanted
        self._context = contextvars.copy_context()
        self.task: asyncio.Task[None] | None = None
        self._answered = threading.Lock()
        self._answered.acquire()
        self.done = False
        self.given_up = False  # nobody wants its result any more
        self.result: T | None = None
        self.error: BaseException | None = None

    # --- in the thread of who asked ---

    def wait(self) -> T:
        """Return what came of it, or raise that; who is interrupted gives it up."""
        try:
            self._answered.acquire()
        except BaseException:  # KeyboardInterrupt, or what another signal's handler raises
            self.give_up()
            raise
        return self.outcome()

    def wait_for(self, seconds: float | None) -> bool:
        """Whether it has ended, at the latest after `seconds`; several threads may ask."""
        if not self.done:
            if self._thread.gone:  # in the child of a fork, which nobody will answer
                self._thread.check_mine()
            if not self._answered.acquire(timeout=-1 if seconds is None else max(seconds, 0)):
                return self.done
            self._answered.release()
        return True

    def wait_at_most(self, seconds: float | None) -> bool:
        """Whether it has ended after `seconds`; else, and where an interrupt comes, it is given up.

        What it raises is raised.
        """
        if seconds is None:
            self.wait()
            return True
        try:
            ended = self.wait_for(seconds)
        except BaseException:
            self.give_up()
            raise
        if ended:
            self.outcome()
            return True
        self.given_up = True
        self._thread.post(Note(self._cancel))
        return False

    def give_up(self) -> None:
        """Cancel it, and wait a moment until it has ended: the client is as it was before."""
        if self.given_up:
            return
        self.given_up = True
        if not self.done:
            self._thread.post(Note(self._cancel))
            self._answered.acquire(timeout=GIVEN_UP_S)
        if self.result is not None and self._unwanted is not None:
            self._thread.post(Note(partial(self._unwanted, self.result)))

    def outcome(self) -> T:
        """Return the result of a call that has ended, or raise its error."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                del self  # else the error's traceback and the call would keep each other
        return self.result  # type: ignore[return-value]  # there is one where there is no error

    # --- in the loop's thread ---

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work, unless it was given up before."""
        if self.given_up:
            self.refuse()
            return
        self._begin_task(loop)

    def _begin_task(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._work is not None
        self._thread.calls.add(self)
        self.task = loop.create_task(self._carry_out(self._work), context=self._context)

    async def over(self) -> None:
        """Return when it has ended; whatever comes of it is its caller's."""
        if self.task is not None:
            await asyncio.wait([self.task])

    def refuse(self) -> None:
        """Let the caller know that nothing is done any more."""
        if not self.done:
            work = self._work
            if work is not None and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()  # it never began, nor will it
            self.error = _closed()
            self._end()

    def forsake(self) -> None:
        """Nobody will answer, in the child of a fork; locks of others are left alone."""
        self.error, self.done = _closed(), True
        self._answered.release()

    async def _carry_out(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            result = await work
            if self.given_up and self._unwanted is not None:
                self._unwanted(result)
            else:
                self.result = result
        except asyncio.CancelledError:
            self.error = _closed()  # what was given up has nobody to see this
        except BaseException as error:  # noqa: BLE001  the caller gets it, whatever it is
            self.error = error
        if not self.done:  # else the loop ended, and could not wait
            self._end()

    def _end(self) -> None:
        self._thread.calls.discard(self)
        self.done = True
        self._answered.release()
        if self._on_end is not None:
            self._on_end()

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()
        elif not self.done:
            self.refuse()


def _closed() -> InvalidUse:
    return InvalidUse("the client was closed before the call had ended")
