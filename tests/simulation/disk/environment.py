"""What the store gets from outside its door to files: clocks, waiting, a process id."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Final
from unittest.mock import patch

from aerobee.storage.files import wait_readable
from simulation.disk.clock import Clock

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
    instead: dict[object, object] = {
        time: VirtualTime(clock),
        wait_readable: clock.wait_readable,
    }
    with contextlib.ExitStack() as doors:
        for name in sorted(key for key in sys.modules if key.startswith(PACKAGE)):
            _replace_names(doors, sys.modules[name], instead)
        real = {time.monotonic: clock.monotonic, time.time: clock.time}
        for name in sorted(key for key in sys.modules if key.startswith(PACKAGE)):
            _replace_defaults(doors, sys.modules[name], real)
        doors.enter_context(patch.object(os, "getpid", lambda: 4711))
        yield


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
