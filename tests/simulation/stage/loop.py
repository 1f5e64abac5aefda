"""An event loop without waiting: its clock jumps to the next timer as soon as nothing is ready.

It is asyncio's own loop; replaced is what it asks for events. Code that asks the loop for the time
sees virtual seconds from 0. Threads do not exist: what is given to one runs a moment later, in the
loop. Callbacks of processes that have died never run.
"""

import asyncio
import heapq
import select
from asyncio import base_events
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from random import Random
from typing import Any, Final

from simulation.stage.process import PROCESS, Process

TURN_S: Final = 20e-6  # of virtual time that one turn takes, so that loops until a time do end
TURNS_MAX: Final = 2_000_000  # a run that needs more does not end
THREAD_S: Final = 0.003  # at most, until work that was given to a thread is done
APART_S: Final = 1e-9  # between callbacks that keep their order
DISK_S: Final = 0.005  # at most, until the loop hears that a file is synced
VIRTUAL_FD: Final = 1 << 24  # numbers from here on are no files of this machine

Connector = Callable[..., Awaitable[Any]]


class Stuck(Exception):
    """Nothing is ready and no timer is set, or the run takes for ever."""


class VirtualLoop(base_events.BaseEventLoop):
    """asyncio's event loop on a clock of its own; all that is random comes from `dice`.

    Real file numbers may be watched as long as they turn readable by this thread's own doing, as
    the store's do. Numbers from VIRTUAL_FD on belong to the simulated network, see `notify`.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self.turns = 0
        self._dice = dice
        self._now_s = 0.0
        self._clock_resolution = 1e-9
        self._selector = self  # of BaseEventLoop: whom it asks for events
        self._poll = select.poll()
        self._readers: dict[int, tuple[Callable[[], object], Context]] = {}
        self._reported: set[int] = set()  # readable files whose reader has been scheduled

    def time(self) -> float:
        """Return the virtual seconds since the run began."""
        return self._now_s

    # --- what BaseEventLoop asks of its selector ---

    def select(self, timeout: float | None) -> list[int]:
        """Let time pass and return the readable file numbers; never waits."""
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Stuck(f"{TURNS_MAX} turns of the loop, at {self._now_s:.6f} s")
        ready = self._readable()
        if timeout is None and not ready:
            raise Stuck(f"nothing will ever happen after {self._now_s:.6f} s")
        self._now_s += TURN_S
        if timeout and not ready:
            self._now_s = max(self._now_s, self._scheduled[0].when())
        return ready

    def _readable(self) -> list[int]:
        if len(self._readers) == 0:
            return []
        ready = {fd for fd, _ in self._poll.poll(0)} - self._reported
        return [fd for fd in self._readers if fd in ready]

    def _process_events(self, event_list: list[int]) -> None:
        for fd in event_list:
            self._reported.add(fd)
            delay_s = self._dice.uniform(0, DISK_S)
            self.call_later(delay_s, self._read, fd, context=self._readers[fd][1])

    def _read(self, fd: int) -> None:
        self._reported.discard(fd)
        if fd in self._readers:
            self._readers[fd][0]()

    def _write_to_self(self) -> None:
        """There is no other thread that would have to be heard."""

    # --- watched file numbers ---

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        """Watch a file number, or wait for `notify` with a virtual one."""
        self._readers[fd] = (partial(callback, *args), copy_context())
        if fd < VIRTUAL_FD:
            self._poll.register(fd, select.POLLIN)

    def remove_reader(self, fd: Any) -> bool:
        """Watch a file number no more; False if it was not watched."""
        known = self._readers.pop(fd, None) is not None
        if known and fd < VIRTUAL_FD:
            self._poll.unregister(fd)
            self._reported.discard(fd)
        return known

    def notify(self, fd: int) -> None:
        """Say that a virtual file number is readable: its reader runs in the next turn."""
        if fd in self._readers:
            self.call_soon(self._read, fd, context=self._readers[fd][1])

    # --- network ---

    def connect_through(self, connect: Connector, accept: Connector) -> None:
        """Take connections from a simulated network; without one there are none."""
        self._connect, self._accept = connect, accept

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect as the network has it."""
        return await self._connect(*args, **options)

    async def connect_accepted_socket(self, *args: Any, **options: Any) -> Any:
        """Give an accepted connection its protocol."""
        return await self._accept(*args, **options)

    # --- processes ---

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback, unless its process is dead."""
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is not None and process.frozen is not None:
            process.frozen.append(asyncio.Handle(callback, args, self, context))
            return process.frozen[-1]
        handle = super().call_soon(callback, *args, context=context)
        if process is not None and not process.alive:
            handle.cancel()
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback at a virtual time, unless its process is dead."""
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is not None and process.frozen is not None and when <= process.thaws_s:
            when = process.thaws_s = process.thaws_s + APART_S
        handle = super().call_at(when, callback, *args, context=context)
        if process is not None and not process.alive:
            handle.cancel()
        return handle

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Start a task and enter it in the book of its process."""
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        context = options.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.tasks.add(task)
        return task

    def freeze(self, process: Process, seconds: float) -> None:
        """Let nothing of a process run for a while, as SIGSTOP does; then all of it at once."""
        process.frozen = []
        for at, handle in enumerate(self._ready):
            if _process_of(handle) is process:
                process.frozen.append(handle)
                self._ready[at] = asyncio.Handle(int, (), self, None)  # this turn counts them
        process.thaws_s = self._now_s + seconds
        for timer in sorted(self._scheduled):
            if _process_of(timer) is process and timer.when() <= process.thaws_s:
                process.thaws_s += APART_S
                timer._when = process.thaws_s  # type: ignore[attr-defined]
        heapq.heapify(self._scheduled)
        super().call_at(self._now_s + seconds, self._thaw, process)

    def _thaw(self, process: Process) -> None:
        frozen, process.frozen = process.frozen, None
        if process.alive:
            self._ready.extend(frozen or ())

    def silence(self, process: Process) -> None:
        """Let nothing run any more that belongs to `process`, which must not be alive."""
        process.frozen = None
        for handle in (*self._ready, *self._scheduled):
            if _process_of(handle) is process:
                handle.cancel()
        for fd, (_, context) in list(self._readers.items()):
            if context.get(PROCESS) is process:
                self.remove_reader(fd)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function a moment later, in the loop: a thread that cannot be overtaken."""
        done = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the result
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(result)

        self.call_later(self._dice.uniform(0, THREAD_S), work)
        return done


def _process_of(handle: asyncio.Handle) -> Process | None:
    return handle._context.get(PROCESS)  # type: ignore[attr-defined,no-any-return]
