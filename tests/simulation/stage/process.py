"""Operating-system processes that share one interpreter, and how they die.

Whatever runs, runs in a context (contextvars) that names its process: tasks and callbacks inherit
it from whoever started them. To kill a process is therefore to let none of its callbacks run any
more and to drop its connections; its memory stays behind, unreachable for the living.
"""

import asyncio
import weakref
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from aerobee.storage.disk.files import Files
    from simulation.stage.transports import End

T = TypeVar("T")

PROCESS: "ContextVar[Process | None]" = ContextVar("PROCESS", default=None)
"""Whose code is running; None for the scenario itself."""


class ProcessDied(Exception):
    """What was asked of a process got no answer: it was killed meanwhile."""


class Process:
    """One life of a server or client: a name, a host address, a process id, and its connections.

    A process that returns after its death is a new `Process` with the same address. `clock_skew_s`
    is how far its wall clock is off.
    """

    def __init__(self, name: str, ip: str, pid: int, clock_skew_s: float = 0.0) -> None:
        self.name = name
        self.ip = ip
        self.pid = pid
        self.clock_skew_s = clock_skew_s
        self.alive = True
        self.frozen: list[asyncio.Handle] | None = None  # what waits for its thaw, see the loop
        self.thaws_s = 0.0
        self.ends: dict[End, None] = {}  # its side of each connection, in the order they were made
        self.files: Files | None = None  # its door to a simulated disk, if it has one
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.context = copy_context()
        self.context.run(PROCESS.set, self)
        self._died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return self.name

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Run `work` as code of this process."""
        context = self.context.copy()
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    async def call(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Run `work` as code of this process and return its result; raises ProcessDied."""
        task = self.spawn(work, name)
        either: list[asyncio.Future[Any]] = [task, self._died]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or not self.alive:
            raise ProcessDied(f"{self.name} died during {name}")
        return await task

    def died(self) -> None:
        """Note the death; the owner has cut the connections and silenced the loop."""
        self.alive = False
        if not self._died.done():
            self._died.set_result(None)
