"""Every door to the outside that a run must not use: clocks, dice, ids, disks, memory, sockets.

`closed` replaces them while a run lasts, by what the seed and virtual time decide. A name that a
module has imported (`from time import monotonic`) is replaced there, too.
"""

import asyncio
import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest.mock import patch

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.residency import Buffer, Resident
from aerobee.storage.features.timers.codecs import SLOT_BYTES
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from simulation.stage.loop import VirtualLoop
from simulation.stage.network import Network
from simulation.stage.process import PROCESS

EPOCH_S: Final = 1_772_000_000  # what wall clocks show when a run begins
WHEEL_SLOTS: Final = 600  # seconds; of a wheel for two weeks a simulated disk has 37 MB
COLD_SHARE: Final = 0.02  # of looks at memory, whose pages have just left it

_SMALL_WHEEL: Final[tuple[tuple[str, object], ...]] = (
    *(
        (f"aerobee.storage.features.timers.{name}.SLOTS", WHEEL_SLOTS)
        for name in ("codecs", "index", "note")
    ),
    ("aerobee.storage.features.timers.wheel.SLOTS", WHEEL_SLOTS),
    ("aerobee.storage.features.timers.wheel.WHEEL_BYTES", WHEEL_SLOTS * SLOT_BYTES),
)


class KeptByTheKernel(Files):
    """The real files, never synced: what a process has written survives the process anyway."""

    def sync(self, fd: int) -> None:
        """A run ends processes, not machines."""

    def sync_directory(self, path: Path) -> None:
        """A run ends processes, not machines."""

    def disk_used_ratio(self, path: Path) -> float:
        """The machine's own disk must not matter."""
        return 0.1

    def boot_id(self) -> bytes:
        """All runs are of one boot."""
        return b"00000000-0000-0000-0000-000000000000"


@contextlib.contextmanager
def closed(loop: VirtualLoop, network: Network, dice: Random) -> Iterator[None]:
    """Let everything below `aerobee` see virtual clocks and seeded dice."""
    state = random.getstate()
    random.seed(dice.getrandbits(64))
    with contextlib.ExitStack() as doors:
        for name, clock in _clocks(loop).items():
            _replace_everywhere(doors, time, name, clock)
        _replace_everywhere(doors, os, "urandom", Random(dice.getrandbits(64)).randbytes)
        _replace_everywhere(doors, os, "getpid", _pid)
        _replace_everywhere(doors, os, "fsync", lambda fd: None)
        for target, replacement in (
            ("aerobee.remoting.command._opaques", itertools.count(1)),
            ("aerobee.remoting.net.server.open_listener", network.open_listener),
            ("aerobee.broker.app.MessageStore", _store),
            ("aerobee.broker.pulls.server.resident", _memory(Random(dice.getrandbits(64)))),
            ("aerobee.broker.cold.reads.DiskThreads", _ThreadsOfTheLoop),
            *_SMALL_WHEEL,
        ):
            doors.enter_context(patch(target, replacement))
        try:
            yield
        finally:
            random.setstate(state)


def _store(settings: StoreSettings) -> MessageStore:
    """Make a store above the disk of the process that wants it, or above one that keeps all."""
    process = PROCESS.get()
    files = process.files if process is not None else None
    return MessageStore(settings, files or KeptByTheKernel())


def _memory(dice: Random) -> Callable[..., Resident]:
    """Return what tells which pages are in memory: not the machine's, or no run were the same."""

    def resident(memory: Buffer, at: int, count: int) -> int:
        return count if dice.random() >= COLD_SHARE else dice.randrange(count + 1)

    def chosen(*, wanted: bool) -> Resident:
        return resident

    return chosen


class _ThreadsOfTheLoop:
    """Stands for the threads that wait for the disk: their work is done in the loop, in turn."""

    def __init__(self, count_max: int) -> None:
        self.count_max = self.count = count_max

    def has_room(self, busy: int) -> bool:
        """There are as many as may be."""
        return busy < self.count_max

    def put(self, job: Callable[[], None]) -> None:
        """Have a job done a moment later."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, job)

    def close(self) -> None:
        """Nothing is left to end."""


def _clocks(loop: VirtualLoop) -> dict[str, Callable[[], float]]:
    def wall_s() -> float:
        process = PROCESS.get()
        skew_s = process.clock_skew_s if process is not None else 0.0
        return EPOCH_S + loop.time() + skew_s

    return {
        "time": wall_s,
        "time_ns": lambda: int(wall_s() * 1e9),
        "monotonic": loop.time,
        "monotonic_ns": lambda: int(loop.time() * 1e9),
        "perf_counter": loop.time,
        "perf_counter_ns": lambda: int(loop.time() * 1e9),
    }


def _pid() -> int:
    process = PROCESS.get()
    return process.pid if process is not None else 1


def _replace_everywhere(
    doors: contextlib.ExitStack, module: Any, name: str, replacement: object
) -> None:
    """Replace a function in its module, and in each of ours that has taken it by name.

    So where it is what an argument is by default: that was taken when the module was imported.
    """
    real = getattr(module, name)
    doors.enter_context(patch.object(module, name, replacement))
    for holder in [each for key, each in sys.modules.items() if key.startswith("aerobee.")]:
        for attribute, value in list(vars(holder).items()):
            if value is real:
                doors.enter_context(patch.object(holder, attribute, replacement))
        for function in _functions(holder):
            usual = function.__defaults__ or ()
            if any(value is real for value in usual):
                doors.callback(setattr, function, "__defaults__", usual)
                function.__defaults__ = tuple(
                    replacement if value is real else value for value in usual
                )
            named = function.__kwdefaults__ or {}
            if any(value is real for value in named.values()):
                doors.callback(setattr, function, "__kwdefaults__", named)
                function.__kwdefaults__ = {
                    key: replacement if value is real else value for key, value in named.items()
                }


def _functions(holder: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions that a module defines, and those of its classes."""
    for value in list(vars(holder).values()):
        if getattr(value, "__module__", None) != holder.__name__:
            continue
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            function = getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                yield function
