"""Work that is done once for everybody who wants its result at the moment."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """One task and those who wait for its result; who gives up leaves it, and the others, alone.

    Giving up costs the same however many wait. (asyncio.shield looks through all of them each
    time: twenty thousand whose time is up together would stop the loop for seconds.)
    """

    __slots__ = ("_waiters", "task")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._waiters: dict[asyncio.Future[T], None] = {}
        self.task = asyncio.get_running_loop().create_task(work)
        self.task.add_done_callback(self._done)

    async def wait(self) -> T:
        """Return the result, or raise what the work has raised; CancelledError if it was cancelled.

        To be called before the work is done.
        """
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            return await waiter
        finally:
            self._waiters.pop(waiter, None)

    def _done(self, task: asyncio.Task[T]) -> None:
        waiters, self._waiters = self._waiters, {}
        error = None if task.cancelled() else task.exception()
        for waiter in waiters:
            if waiter.done():
                continue
            if task.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(task.result())
