"""The disk's clock where an event loop has its own: what machines do is nobody's process."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Context

from simulation.disk.clock import EPOCH_S, Clock
from simulation.disk.environment import waiting_in


class LoopClock(Clock):
    """Events of one machine as timers of a virtual loop; `step` has the next one happen at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._timers: dict[int, tuple[asyncio.TimerHandle, Callable[[], object]]] = {}
        self._number = 0

    def monotonic(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def time(self) -> float:
        """Return the wall clock's time."""
        return EPOCH_S + self._loop.time()

    def after(self, delay_s: float, do: Callable[[], object]) -> None:
        """Have something done a while from now, whoever lives then."""
        self._number += 1
        number = self._number
        timer = self._loop.call_later(delay_s, self._due, number, context=Context())
        self._timers[number] = timer, do

    def _due(self, number: int) -> None:
        _, do = self._timers.pop(number)
        do()

    def next_s(self) -> float | None:
        """Return when the next event is due, None if there is none."""
        return min((timer.when() for timer, _ in self._timers.values()), default=None)

    def step(self) -> bool:
        """Have the next event happen now: somebody waits for it, and the loop with him."""
        if not self._timers:
            return False
        number = min(self._timers, key=lambda each: (self._timers[each][0].when(), each))
        timer, do = self._timers.pop(number)
        timer.cancel()
        do()
        return True

    def forget(self) -> None:
        """Let nothing happen of what was to come."""
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()


class Clocks:
    """The clocks of all machines of a run; whoever waits for a disk waits for all of them."""

    def __init__(self) -> None:
        self._all: list[LoopClock] = []

    def make(self, loop: asyncio.AbstractEventLoop) -> LoopClock:
        """Return the clock of another machine."""
        self._all.append(LoopClock(loop))
        return self._all[-1]

    def _wait_readable(self, fds: Sequence[int], timeout_s: float) -> list[int]:
        """Wait for a file number as the product does; time stands still meanwhile."""
        while not (ready := Clock.readable(fds)):
            due = [(at_s, clock) for clock in self._all if (at_s := clock.next_s()) is not None]
            assert due, f"nothing will ever happen in {timeout_s} s"
            min(due, key=lambda each: each[0])[1].step()
        return ready

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the store's code wait for the disks, and tell time by the loop."""
        with ExitStack() as doors:
            if self._all:
                waiting_in(doors, self._all[0], self._wait_readable)
            yield
