"""What a room gives to a broker that has it, and what it may be made of."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.members.subscriptions import Language
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.table_file import TableFile
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.net.routes import Routes
from aerobee.storage.errors import StoreError


class Timer(Protocol):
    """What `call_later` of a loop returns."""

    def cancel(self) -> object:
        """Forget the call."""


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Takes seconds and a function, as the event loop's method of that name does."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a feature may be made of; the store is open, and nobody is served yet.

    `refused` is to be told what the store would not take; `languages` are those of filters, by the
    type of an expression.
    """

    live: Live
    writing: Writing
    cold_reads: ColdReads
    now_ms: Callable[[], int]
    call_later: CallLater
    refused: Callable[[StoreError], None]
    languages: dict[str, Language]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a message is stored that does not go to its own queue, and as what.

    `tags_code` is for its queue entry, `spare_bytes` must be left free among its properties, and
    `appended` is called when it was appended, before it is committed.
    """

    queue: TopicQueue
    tags_code: int
    spare_bytes: int
    appended: Callable[[], None]


class Placer(Protocol):
    """Says which messages are stored elsewhere; asked of every message of the checked path."""

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return where, with its `properties` changed for there, or None: no business of this one.

        Raises RequestError for properties that cannot be.
        """


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric at this moment."""

    name: str
    value: float
    labels: Mapping[str, str]


class Feature:
    """One feature of a running broker; whatever it does not say is nothing.

    Its life: made by its room's `make` when the store is open, `start` when the broker serves,
    `stop` before the last commit, `close` when the store is closed.
    """

    metrics: ClassVar[Mapping[str, str]] = {}
    """The names of its metrics, with what `/metrics` says of each."""

    def __init__(self) -> None:
        self.routes: Routes[Any] | None = None
        """Which requests it answers; their context is of no use to it."""
        self.placer: Placer | None = None
        self.files: Sequence[TableFile] = ()
        """What it keeps in `config/`; files that cannot be saved are told by `/readyz`."""

    def start(self) -> None:
        """Begin what is done beside the requests."""

    def stop(self) -> None:
        """End what `start` began."""

    def close(self) -> OSError | None:
        """Save what is kept; return what kept it from that. The store has been closed."""
        return None

    def background(self) -> Iterable[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return what goes on until the stop, each under the name by which its faults count."""
        return ()

    def samples(self) -> Iterator[Sample]:
        """Yield the values of its metrics."""
        yield from ()

    def runtime_info(self) -> Mapping[str, str]:
        """Return its lines of `mqadmin brokerStatus`."""
        return {}
