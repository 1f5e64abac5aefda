"""Threads for the plain functions of users: handlers, checks of transactions, callbacks."""

import asyncio
import contextvars
import inspect
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

from aerobee.client.errors import InvalidUse
from aerobee.client.handlers import InvalidHandler
from aerobee.client.sync.calls import Note
from aerobee.client.sync.loop_thread import LoopThread

log = logging.getLogger(__name__)

_END: Final = None


class _Job:
    """One call of a function, and where its answer goes."""

    __slots__ = ("_answer", "_context", "_function", "_future", "_given", "_raised")

    def __init__(
        self, function: Callable[[Any], object], given: Any, future: asyncio.Future[object] | None
    ) -> None:
        self._context = (
            contextvars.copy_context()
        )  # a handler that closes its consumer is known by it
        self._function = function
        self._given = given
        self._future = future
        self._answer: object = None
        self._raised: BaseException | None = None

    def run(self, thread: LoopThread) -> None:
        """Call the function, in a thread; the answer goes to the loop."""
        if self._future is not None and self._future.cancelled():
            return
        try:
            self._answer = self._context.run(_call, self._function, self._given)
        except Exception as error:  # noqa: BLE001  whoever awaits the handler sees to it
            self._raised = error
        except BaseException as error:  # noqa: BLE001  of a thread, not of the loop's
            self._raised = RuntimeError(f"the function raised {type(error).__name__}")
            self._raised.__cause__ = error
        if self._future is not None:
            thread.post(Note(self._tell))
        elif self._raised is not None:
            log.error("callback failed function=%r", self._function, exc_info=self._raised)

    def _tell(self) -> None:
        """Hand over the answer, in the loop's thread, unless nobody waits for it any more."""
        assert self._future is not None
        if self._future.done():
            return
        if self._raised is not None:
            self._future.set_exception(self._raised)
        else:
            self._future.set_result(self._answer)


class DaemonThreads:
    """Up to `size` daemon threads that call users' functions, made when they are needed.

    They keep no process alive: a function that hangs for ever ends with the interpreter.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._count = 0
        self._busy = 0  # jobs that wait or run; written in the loop's thread alone
        self._thread: LoopThread | None = None

    def begin(self, thread: LoopThread) -> None:
        """Know the loop to which answers go, before the first call."""
        self._thread = thread

    async def call(self, function: Callable[[Any], object], given: Any) -> object:
        """Call a function with what it is given in one of the threads, and return its answer."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._busy += 1
        try:
            self._put(_Job(function, given, future))
            return await future
        finally:
            self._busy -= 1

    def post(self, function: Callable[[Any], object], given: Any) -> None:
        """Call a function soon; with one thread in the order in which this is called."""
        self._put(_Job(function, given, None))

    def close(self) -> None:
        """Let the threads end; a function that still runs is not stopped, nor waited for."""
        for _ in range(self._count):
            self._jobs.put(_END)
        self._jobs, self._count = queue.SimpleQueue(), 0

    def __del__(self) -> None:
        """End the threads of a client that was never closed."""
        self.close()

    def _put(self, job: _Job) -> None:
        """Let a job wait for a thread, a new one where all have something to do."""
        self._jobs.put(job)
        if self._count < self._size and (self._count < self._busy or not self._count):
            assert self._thread is not None
            worker = threading.Thread(
                target=_work,
                args=(self._jobs, self._thread),
                name=f"{self._name}-{self._count}",
                daemon=True,
            )
            try:
                worker.start()
            except RuntimeError:  # no more of them, or the interpreter is about to end
                if not self._count:
                    raise
            else:
                self._count += 1


def plain(function: Callable[..., object], what: str) -> None:
    """Refuse an async function: it belongs to the asyncio client."""
    if not callable(function):
        raise InvalidHandler(f"{what} {function!r} is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidHandler(f"{what} {function!r} is a generator, which would never run: no yield")
    call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise InvalidHandler(
            f"{what} {function!r} is async: aerobee.client.sync takes plain functions,"
            " aerobee.client async ones"
        )


def _work(jobs: "queue.SimpleQueue[_Job | None]", thread: LoopThread) -> None:
    while (job := jobs.get()) is not _END:
        job.run(thread)
        del job  # what it was given is not kept while there is nothing to do


def _call(function: Callable[[Any], object], given: Any) -> object:
    try:
        answer = function(given)
    except StopIteration as error:  # no future takes it: who waits would wait for ever
        raise RuntimeError("the function raised StopIteration") from error
    if inspect.iscoroutine(answer):  # as of `lambda message: handle(message)`
        answer.close()
        raise InvalidUse(f"{function!r} returned a coroutine, which nobody awaits here")
    return answer
