"""What the store gets from outside its door to files: clocks, waiting, a process id."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from aerobee.storage.disk.files import wait_readable
from simulation.disk.clock import Clock

REAL_MONOTONIC: Final = time.monotonic  # a run may have replaced them in their module
REAL_TIME: Final = time.time
Wait: TypeAlias = Callable[[Sequence[int], float], list[int]]
PACKAGE: Final = "aerobee.storage."


class VirtualTime:
    """Stands for the module `time` in the store's modules."""

    localtime = staticmethod(time.gmtime)
    strftime = staticmethod(time.strftime)

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self.perf_counter = clock.monotonic
        self.time = clock.time
        self.time_ns = lambda: int(clock.time() * 1e9)


@contextlib.contextmanager
def virtual(clock: Clock) -> Iterator[None]:
    """Let the store's code see the time of `clock`, wait in it, and have a fixed process id."""
    instead: dict[object, object] = {time: VirtualTime(clock)}
    with contextlib.ExitStack() as doors:
        for module in _modules():
            _replace_names(doors, module, instead)
        waiting_in(doors, clock, clock.wait_readable)
        doors.enter_context(patch.object(os, "getpid", lambda: 4711))
        yield


def waiting_in(doors: contextlib.ExitStack, clock: Clock, wait: Wait) -> None:
    """Let the store's code wait in the time of `clock`, and tell time by it."""
    clocks = {REAL_MONOTONIC: clock.monotonic, REAL_TIME: clock.time}
    for module in _modules():
        _replace_names(doors, module, {wait_readable: wait})
        _replace_defaults(doors, module, clocks)


def _modules() -> list[Any]:
    return [sys.modules[name] for name in sorted(sys.modules) if name.startswith(PACKAGE)]


def _replace_names(doors: contextlib.ExitStack, module: Any, instead: dict[object, object]) -> None:
    for attribute, value in list(vars(module).items()):
        if isinstance(value, type(time) | type(wait_readable)) and value in instead:
            doors.enter_context(patch.object(module, attribute, instead[value]))


def _replace_defaults(doors: contextlib.ExitStack, module: Any, instead: dict[Any, Any]) -> None:
    """Replace clocks that are defaults of parameters: those were taken when the module began."""
    for cls in [each for each in vars(module).values() if isinstance(each, type)]:
        init: Any = vars(cls).get("__init__")
        defaults = getattr(init, "__defaults__", None)
        if cls.__module__ == module.__name__ and defaults:
            fresh = tuple(instead[each] if _is_clock(each, instead) else each for each in defaults)
            if fresh != defaults:
                doors.enter_context(patch.object(init, "__defaults__", fresh))


def _is_clock(value: object, instead: dict[Any, Any]) -> bool:
    return callable(value) and value in instead
