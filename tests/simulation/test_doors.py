"""The doors to the outside while a run lasts: nothing of the project sees a real clock."""

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from aerobee.broker.features.sql92.scan import scan
from aerobee.broker.front.lateness import Lateness
from aerobee.storage.upkeep.flush import Flusher
from simulation.stage.doors import closed
from simulation.stage.loop import VirtualLoop
from simulation.stage.network import Network
from simulation.stage.trace import Trace

REAL: Final = (
    *(time.time, time.time_ns, time.monotonic, time.monotonic_ns),
    *(time.perf_counter, time.perf_counter_ns),
)
TAKERS: Final = (Lateness, Flusher, scan)  # each has a clock that is given to it by default


def test_no_clock_is_real_while_a_run_lasts() -> None:
    """Nor those that arguments are by default, which were taken when a module was imported."""
    before = list(_defaults())
    assert any(each in REAL for each in before)
    loop = VirtualLoop(Random(1))
    network = Network(loop, Random(2), Trace(loop.time, None))
    with closed(loop, network, Random(3)):
        assert [each for each in _defaults() if each in REAL] == []
        assert [name for name, value in _globals() if value in REAL] == []
        clock = inspect.signature(Lateness).parameters["clock_s"].default
        assert clock() == loop.time()
    assert list(_defaults()) == before, "all is as it was"


def _defaults() -> Iterator[object]:
    for taker in TAKERS:
        for parameter in inspect.signature(taker).parameters.values():
            if isinstance(parameter.default, Callable):  # type: ignore[arg-type]
                yield parameter.default


def _globals() -> Iterator[tuple[str, object]]:
    for key, module in list(sys.modules.items()):
        if key.startswith("aerobee."):
            for name, value in list(vars(module).items()):
                if callable(value):
                    yield f"{key}.{name}", value
