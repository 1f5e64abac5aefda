"""What all axes have in common: a broker that grows from size to size and is looked at in each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from support.interop.processes import ServerFailed

from benchmarks.generator import LoadFailed
from benchmarks.growth.lines import Line
from benchmarks.growth.server import Bench, Server, serving
from benchmarks.targets.brokers import BrokerTarget

Values = dict[str, float]
"""By the line's key."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one round found at one size; `refused` says why there is nothing, or not all."""

    size: int
    values: Values = field(default_factory=dict)
    refused: str = ""


class Axis(ABC):
    """Something that cost may grow with; everything else is fixed."""

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]
    sizes: ClassVar[tuple[int, ...]]
    quick: ClassVar[tuple[int, ...]]
    more: ClassVar[tuple[int, ...]] = ()  # with --full
    lines: ClassVar[tuple[Line, ...]]
    settings: ClassVar[Mapping[str, str]] = {}
    fresh: ClassVar[bool] = False  # each size has a broker of its own
    once: ClassVar[bool] = False  # too much to fill for each round: all rounds meet one store

    def measure(
        self, bench: Bench, kind: type[BrokerTarget], sizes: Sequence[int]
    ) -> Iterator[Reading]:
        """Yield what a round finds at each size, upwards, until a broker takes no more."""
        runs = [[size] for size in sizes] if self.fresh else [list(sizes)]
        for run in runs:
            refused = False
            with serving(bench, kind, self.settings) as server:
                for reading in self._grown(server, run):
                    refused = bool(reading.refused)
                    yield reading
            if refused:
                return

    def _grown(self, server: Server, sizes: Sequence[int]) -> Iterator[Reading]:
        before = 0
        for size in sizes:
            server.bench.note(f"{self.name}: {server.target.name}, {size:,} {self.unit}")
            try:
                for values in self.grow(server, before, size):
                    yield Reading(size, values)
            except (LoadFailed, ServerFailed, OSError) as error:
                text = str(error).strip().splitlines() or [type(error).__name__]
                yield Reading(size, refused=text[-1])
                return
            before = size

    @abstractmethod
    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Bring a broker from one size to the next and yield what it costs there.

        LoadFailed where the broker does not take that much.
        """
