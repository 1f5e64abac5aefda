"""One run: the loop, the network, the dice of one seed, and the processes that live in it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from simulation.disk.loop_clock import Clocks
from simulation.disk.machine import Died
from simulation.stage.doors import closed
from simulation.stage.loop import VirtualLoop
from simulation.stage.network import Network
from simulation.stage.process import PROCESS, Process
from simulation.stage.trace import Trace

T = TypeVar("T")

SKEW_S: Final = 2.0  # wall clocks of two processes are at most twice that apart


class UnexpectedErrors(logging.Handler):
    """Remembers errors that the code under test logs with a traceback: it did not expect them."""

    def __init__(self, told: Callable[[str], object]) -> None:
        super().__init__(logging.ERROR)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        """Note one, unless it is one that a handler of the scenario raised."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, HandlerFails):
            self._told(f"{PROCESS.get()}: {record.getMessage()}: {error!r}")


class HandlerFails(Exception):
    """What the handlers of a scenario raise now and then."""


class World:
    """Everything that one seed decides. `folder` holds the files of the servers."""

    def __init__(
        self, seed: int, folder: Path, echo: Callable[[str], object] | None = None
    ) -> None:
        self.seed = seed
        self.folder = folder
        self.dice = Random(f"scenario {seed}")
        self.loop = VirtualLoop(Random(f"loop {seed}"))
        self.trace = Trace(self.loop.time, echo)
        self.network = Network(self.loop, Random(f"network {seed}"), self.trace)
        self.unexpected: list[str] = []
        self.clocks = Clocks()  # of simulated disks
        self._over = False
        self._processes: list[Process] = []
        self._dead_tasks: list[asyncio.Task[Any]] = []  # or asyncio complains of their ends

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """Run a scenario to its end, then drop everything that is left of it."""
        errors = UnexpectedErrors(self._note_unexpected)
        aerobee = logging.getLogger("aerobee")
        self.loop.set_exception_handler(self._failed)
        doors = closed(self.loop, self.network, Random(f"doors {self.seed}"))
        with doors, self.clocks.running(), _heard(aerobee, errors):
            try:
                return self.loop.run_until_complete(scenario)
            finally:
                self._over = True
                self.loop.turns = 0  # also after a run that had too many
                self.loop.run_until_complete(self._bury())
                self.loop.close()

    def process(self, name: str, ip: str) -> Process:
        """Begin a process."""
        skew_s = self.dice.uniform(-SKEW_S, SKEW_S)
        process = Process(name, ip, 100 + len(self._processes), skew_s)
        self._processes.append(process)
        return process

    def kill(self, process: Process, *, silent_s: float = 0.0) -> None:
        """End a process without a good-bye; see Network.kill."""
        self.trace.note(f"{process} dies" + (f", unheard for {silent_s:.0f} s" * bool(silent_s)))
        self._dead_tasks += [task for task in process.tasks if not task.done()]
        self.network.kill(process, silent_s=silent_s)

    async def until(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Wait until a condition holds; False if it does not in time."""
        ends_s = self.loop.time() + timeout_s
        while not condition():
            if self.loop.time() > ends_s:
                return False
            await asyncio.sleep(0.1)
        return True

    def _note_unexpected(self, what: str) -> None:
        if self._over:
            return  # the dead are being buried
        self.trace.note(f"unexpected: {what}")
        self.unexpected.append(what)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Died):  # that is how a disk ends a process
            self._note_unexpected(f"{context.get('message')}: {context.get('exception')!r}")

    async def _bury(self) -> None:
        """End what is left of every process, unseen by any other and unheard."""
        self.loop.set_exception_handler(lambda loop, context: None)
        for process in self._processes:
            process.died()
            self.loop.silence(process)
        for process in self._processes:
            buried: set[asyncio.Task[Any]] = set()
            while left := [
                each for each in process.tasks if each not in buried and not each.done()
            ]:
                for task in left:  # closing one may make another, which never begins
                    buried.add(task)
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = task.get_coro()
                    assert coroutine is not None
                    with contextlib.suppress(Exception):  # it wants to wait for something more
                        process.context.copy().run(coroutine.close)


@contextlib.contextmanager
def _heard(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """Let a handler hear a logger, and nobody else: a run logs what nobody reads."""
    propagate, logger.propagate = logger.propagate, False
    level = logger.level
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)
