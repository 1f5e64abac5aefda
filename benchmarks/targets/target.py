"""What every measured server has in common: it starts on its CPU, is measured, rests, and stops."""

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from support.interop.processes import ServerFailed

from benchmarks.generator import Measurement, Sample, run_marked
from benchmarks.loads import Load, Variant
from benchmarks.syncs import SyncCounts
from benchmarks.targets import compiling, processes

SERVES_SECONDS_MAX: Final = 60
STOP_SECONDS_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a run warms up and how long it measures, in seconds."""

    warmup_s: float
    measured_s: float

    def words(self) -> list[str]:
        """Return the generator's arguments."""
        return ["--warmup", str(self.warmup_s), "--seconds", str(self.measured_s)]


@dataclass(frozen=True, slots=True)
class Cpus:
    """Which CPU belongs to the server and which to the generator, or all of them to both."""

    server: int
    generator: int
    shared: bool = False

    @classmethod
    def apart(cls) -> "Cpus":
        """Give the server the first CPU, everything else the last; this process goes there, too."""
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[-1]})  # and never in the way of what is measured
        return cls(server=usable[0], generator=usable[-1])

    def pinned(self, command: list[str]) -> list[str]:
        """Return the command for a server, on its CPU."""
        return ["taskset", "-c", self._of(self.server), *command]

    def for_generator(self) -> list[str]:
        """Return the words before a generator's command."""
        return ["taskset", "-c", self._of(self.generator)]

    def _of(self, cpu: int) -> str:
        return f"{min(self.server, self.generator)}-{self.generator}" if self.shared else str(cpu)


class Target(ABC):
    """One server over files of its own below `directory`."""

    name: ClassVar[str]
    warms_up: ClassVar[bool] = False  # its CPU per message falls for a while after its start

    def __init__(self, directory: Path, cpus: Cpus) -> None:
        self.directory = directory
        self.cpus = cpus
        directory.mkdir(parents=True)
        self.syncs: SyncCounts | None = SyncCounts(directory / "syncs")

    @abstractmethod
    def version(self) -> str:
        """Return what is measured, for the report."""

    @abstractmethod
    def start(self) -> None:
        """Start and return when it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process whose family is measured."""

    @abstractmethod
    def command(self, load: Load, variant: Variant) -> list[str]:
        """Return the generator's command for a load, without times."""

    def prepare(self, load: Load, variant: Variant) -> None:  # noqa: B027 - most need nothing
        """Make what the load needs; called once per load and variant."""

    def pids(self) -> list[int]:
        """Return the server's processes."""
        return processes.family(self.pid)

    def pause(self) -> None:
        """Cost nothing while another server is measured."""
        processes.pause(self.pids())

    def resume(self) -> None:
        """Go on."""
        processes.resume(self.pids())

    def measure(self, load: Load, variant: Variant, timing: Timing) -> Measurement:
        """Run the load once; LoadFailed on any wrong reply."""
        return run_marked([*self.command(load, variant), *timing.words()], self.sample)

    def sample(self) -> Sample:
        """Return what the server has used up so far."""
        syncs = self.syncs.total() if self.syncs else None
        return Sample(processes.cpu_seconds(self.pids()), syncs)

    def generator(self, port: int, words: list[str]) -> list[str]:
        """Return the load generator's command against one port."""
        binary = str(compiling.load_generator())
        command = [*self.cpus.for_generator(), binary, *words, "--port", str(port), "--marks"]
        return command if self.cpus.shared else [*command, "--cpu", str(self.cpus.generator)]


class ChildTarget(Target):
    """A server that is one child process."""

    _child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The child."""
        assert self._child is not None
        return self._child.pid

    def launch(self, command: list[str], serves: Callable[[], bool]) -> None:
        """Start the child and wait until it serves; its output goes to `server.log`."""
        preload = ["env", *self.syncs.environment()] if self.syncs else []
        with (self.directory / "server.log").open("wb") as log:
            self._child = subprocess.Popen(
                self.cpus.pinned([*preload, *command]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + SERVES_SECONDS_MAX
        while not serves():
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ServerFailed(f"{self.name} does not serve: {self.log()[-2000:]}")
            time.sleep(0.02)

    def log(self) -> str:
        """Return what the server printed."""
        return (self.directory / "server.log").read_text(errors="replace")

    def stop(self) -> None:
        """End the child by SIGTERM, by SIGKILL if it takes too long."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            processes.resume(processes.family(child.pid))
            child.terminate()
        try:
            child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
