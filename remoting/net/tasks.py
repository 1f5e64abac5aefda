"""Tasks that live as long as their owner, and calls that come round."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, TypeAlias

log = logging.getLogger(__name__)

RESTART_S: Final = 1.0  # until work that ended unexpectedly begins anew

OnFailure: TypeAlias = Callable[[str, BaseException], None]
"""Told the name of a task and what ended it, or one of its rounds."""


class Ended(Exception):
    """Work that was to go on has ended by itself, or was cancelled by somebody else."""


class Tasks:
    """The tasks of one owner: none is lost sight of, and none that can be ended outlives `close`.

    asyncio itself keeps only weak references to tasks, and tells of a failure when it is too late.
    """

    def __init__(self, on_failure: OnFailure | None = None) -> None:
        self._on_failure = on_failure or _log_failure
        self._running: dict[asyncio.Task[Any], None] = {}  # in the order of their start
        self._closed = False

    def __len__(self) -> int:
        """Return how many are running."""
        return len(self._running)

    def start(
        self, work: Coroutine[Any, Any, Any], name: str | None = None
    ) -> asyncio.Task[Any] | None:
        """Run `work` beside the caller; its failure is told. None after `close`."""
        if self._closed:
            work.close()
            return None
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def keep(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str, pause_s: float | None = None
    ) -> None:
        """Run work that goes on until `close`: whatever ends it is told, and it begins anew.

        That it was cancelled is told when it begins anew: `asyncio.run` cancels all that is left
        when its program has ended, and nothing of it will go on.
        """

        def ended(task: asyncio.Task[Any]) -> None:
            if self._closed:
                return
            if not task.cancelled() and task.exception() is None:
                self._on_failure(name, Ended(f"{name} came to its end, and is to go on"))
            pause = RESTART_S if pause_s is None else pause_s
            task.get_loop().call_later(pause, again, task.cancelled())

        def again(was_cancelled: bool) -> None:
            if was_cancelled and not self._closed:
                self._on_failure(name, Ended(f"{name} was cancelled, and is to go on"))
            begin()

        def begin() -> None:
            if not self._closed and (task := self.start(work(), name)) is not None:
                task.add_done_callback(ended)

        begin()

    def every(
        self, interval_ms: int, action: Callable[[], Coroutine[Any, Any, None]], name: str
    ) -> None:
        """Call `action` again and again, `interval_ms` after it last ended; errors are told."""
        self.keep(lambda: self._repeat(interval_ms / 1000, action, name), name)

    async def finish(self, timeout_s: float) -> None:
        """Wait for those that run; after `timeout_s` seconds end them as `close` does."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)
        await self.close()

    async def close(
        self, *, spared: Collection[asyncio.Task[Any]] = (), timeout_s: float | None = None
    ) -> None:
        """Cancel what runs and wait for its end; the calling task and `spared` ones go on.

        What has not ended after `timeout_s` seconds is logged and left alone: it runs code that
        does not mind that it is cancelled.
        """
        tasks = self.cancel(spared=spared)
        if not tasks:
            return
        _, stubborn = await asyncio.wait(tasks, timeout=timeout_s)
        for task in stubborn:
            log.error("task does not end though it is cancelled name=%s", task.get_name())

    def cancel(self, *, spared: Collection[asyncio.Task[Any]] = ()) -> list[asyncio.Task[Any]]:
        """Begin to end what runs, as `close` does, and wait for nothing; return what is to end."""
        self._closed = True
        current = asyncio.current_task()
        tasks = [task for task in self._running if task is not current and task not in spared]
        for task in tasks:
            task.cancel()
        return tasks

    async def _repeat(
        self, interval_s: float, action: Callable[[], Coroutine[Any, Any, None]], name: str
    ) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await action()
            except Exception as error:  # noqa: BLE001  one failed round must not end the rounds
                self._on_failure(name, error)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)


def _log_failure(name: str, error: BaseException) -> None:
    log.error("task failed name=%s", name, exc_info=error)
