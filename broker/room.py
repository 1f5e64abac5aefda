"""The form that every room of a running broker has; the broker is a list of them."""

from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Routes


class KeptFile(Protocol):
    """A file that is written again and again; `error` is what keeps it from that."""

    path: Path
    error: OSError | None


class Work(msgspec.Struct, frozen=True):
    """What goes on beside the requests, from the start to the stop, by its name in faults.

    `call` is called every `interval_s` seconds, and awaited where it is a coroutine function.
    Without an interval it is a coroutine function that goes on by itself.
    """

    name: str
    call: Callable[[], None] | Callable[[], Coroutine[Any, Any, None]]
    interval_s: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """One value of a metric at this moment."""

    name: str
    value: float
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class Histogram:
    """How many values there were up to each of `bounds`, and beyond the last; and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Take a value, or several that are alike."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def copy(self) -> "Histogram":
        """Return it as it is now, for who reads it in another thread."""
        made = Histogram(self.bounds)
        made.counts, made.total = list(self.counts), self.total
        return made


class Distribution(msgspec.Struct, frozen=True):
    """The values of one metric that is a histogram, at this moment."""

    name: str
    values: Histogram
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class Room:
    """One room of a running broker; whatever it does not say is nothing.

    Its life: made when the store is open and the ports are bound, before anybody is served; `start`
    in the order of the list, `stop` in the reverse one; at last `close` in the order of the list,
    when no connection is left and nothing goes on. A room is stopped and closed even if its start
    failed or never came.
    """

    answers: Routes[Any] | None = None
    """Which requests it answers; their context is of no use to it."""
    files: Sequence[KeptFile] = ()
    """What it keeps in `config/`; files that cannot be saved are told by `/readyz`."""
    on_closed: Sequence[Callable[[Connection], None]] = ()
    """Who hears of a client's connection that has ended."""

    def before_requests(self) -> None:
        """Be ready for requests: all rooms are made, and nobody is served before this returns."""

    async def start(self) -> None:
        """Begin; the broker serves when all have."""

    async def stop(self) -> None:
        """End what `start` began; the store is open, and so are the rooms before this one."""

    def close(self) -> OSError | None:
        """Save what is kept; return what kept it from that."""
        return None

    def background(self) -> Iterable[Work]:
        """Return what goes on until the stop."""
        return ()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """The names of its metrics, with what `/metrics` says of each."""
        return {}

    def samples(self) -> Iterator[Sample]:
        """Yield the values of its metrics: the first hundred in one turn of the loop, and so on.

        Who yields one for each topic lets topics come and go meanwhile.
        """
        yield from ()

    def distributions(self) -> Iterator[Distribution]:
        """Yield those of its metrics that are histograms, as `samples` does."""
        yield from ()

    def shown(self) -> Mapping[str, Any]:
        """Return its fields of `/api/broker`, by name."""
        return {}

    def degraded(self) -> Iterator[str]:
        """Yield what is wrong while the broker serves all the same, a sentence each."""
        yield from ()

    def runtime_info(self) -> Mapping[str, str]:
        """Return its lines of `mqadmin brokerStatus`."""
        return {}
