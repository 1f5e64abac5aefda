"""Pulls that found nothing and wait in the broker: long polling (PullRequestHoldService)."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.net.connection import Connection

if TYPE_CHECKING:
    from aerobee.broker.pulls.pull import Pull

SWEEP_INTERVAL_MS: Final = 100
SERVED_PER_TURN_MAX: Final = 64  # some milliseconds; the rest waits until others had their turn


class HeldServer(Protocol):
    """Who serves pulls that have waited."""

    def serve_again(self, pull: "Pull", expired: bool) -> bool:
        """Run a pull once more and answer it; False when it goes on waiting."""

    def failed(self, pull: "Pull", error: Exception) -> None:
        """Answer a pull whose serving raised; raises nothing."""


class HoldLimits(msgspec.Struct, frozen=True):
    """How many pulls may wait in all, and of one connection."""

    held_max: int
    held_per_connection_max: int


class HeldPull:
    """One waiting pull and the sweep that ends its wait."""

    __slots__ = ("expired", "pull", "queue", "sweep")

    def __init__(self, pull: "Pull", queue: TopicQueue, sweep: int) -> None:
        self.pull = pull
        self.queue = queue
        self.sweep = sweep
        self.expired = False


class Holds:
    """All waiting pulls, found by queue when a message arrives and by deadline when none does.

    `server` answers those whose time has come; `clock_ms` must never go back. At most
    SERVED_PER_TURN_MAX are served at once; `call_soon` brings the others their turn. A pull whose
    serving raises is handed to `server.failed`: the others are served all the same.

    Invariant: a held pull is in its connection's table, and in either its queue's or `_ready`.
    """

    def __init__(
        self,
        server: HeldServer,
        clock_ms: Callable[[], int],
        limits: HoldLimits,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._serve_again = server.serve_again
        self._failed = server.failed
        self._clock_ms = clock_ms
        self._held_max = limits.held_max
        self._held_per_connection_max = limits.held_per_connection_max
        self._call_soon = call_soon
        self._sweeps: dict[int, dict[HeldPull, None]] = {}  # in the order in which they came
        self._next_sweep = clock_ms() // SWEEP_INTERVAL_MS
        self._of: dict[Connection, dict[HeldPull, None]] = {}
        self._ready: deque[HeldPull] = deque()  # to be served in the turns that follow
        self.count = 0

    def hold(self, pull: "Pull", queue: TopicQueue, timeout_ms: int) -> bool:
        """Keep a pull until a message arrives, or for `timeout_ms`; False when too many wait."""
        if self.count >= self._held_max:
            return False
        of_connection = self._of.setdefault(pull.connection, {})
        if len(of_connection) >= self._held_per_connection_max:
            return False
        sweep = max((self._clock_ms() + timeout_ms) // SWEEP_INTERVAL_MS, self._next_sweep)
        held = HeldPull(pull, queue, sweep)
        queue.holds[held] = None
        self._sweeps.setdefault(sweep, {})[held] = None
        of_connection[held] = None
        self.count += 1
        return True

    def wake(self, queues: list[TopicQueue]) -> None:
        """Messages arrived in `queues` (repeats allowed): serve those who wait for them."""
        woken: list[HeldPull] = []
        for queue in queues:
            if queue.holds:
                woken += queue.holds
                queue.holds = {}
        self._serve_some(woken)

    def sweep(self) -> None:
        """Answer the pulls whose time is up; to be called every SWEEP_INTERVAL_MS."""
        due = self._clock_ms() // SWEEP_INTERVAL_MS
        over: list[HeldPull] = []
        while self._next_sweep < due:
            for held in self._sweeps.pop(self._next_sweep, ()):
                held.expired = True
                if held in held.queue.holds:  # or it is in _ready
                    del held.queue.holds[held]
                    over.append(held)
            self._next_sweep += 1
        self._serve_some(over)

    def release(self, queue: TopicQueue) -> None:
        """Answer everybody who waits on a queue that goes away."""
        waiting, queue.holds = queue.holds, {}
        for held in waiting:
            held.expired = True
        self._serve_some(list(waiting))

    def end(self, queue: TopicQueue, connection: Connection, group: str) -> None:
        """Answer the pulls of one connection and group that wait on a queue."""
        over = [
            held
            for held in queue.holds
            if held.pull.connection is connection and held.pull.header.consumer_group == group
        ]
        for held in over:
            held.expired = True
            del queue.holds[held]
        self._serve_some(over)

    def offset_of(self, queue: TopicQueue, connection: Connection, group: str) -> int | None:
        """Return the offset at which a pull of a connection and group waits, None if none does."""
        held: HeldPull
        for held in queue.holds:
            pull = held.pull
            if pull.connection is connection and pull.header.consumer_group == group:
                return pull.header.queue_offset
        return None

    def closed(self, connection: Connection) -> None:
        """Forget the pulls of a connection that is gone, or they take others' room."""
        for held in self._of.pop(connection, ()):
            held.queue.holds.pop(held, None)
            self._forget(held)

    def _serve_some(self, waiting: list[HeldPull]) -> None:
        """Serve as many as one turn allows and remember the others, which are in no table."""
        for held in waiting[:SERVED_PER_TURN_MAX]:
            self._serve(held)
        if len(waiting) > SERVED_PER_TURN_MAX:
            if not self._ready:
                self._call_soon(self._serve_ready)
            self._ready += waiting[SERVED_PER_TURN_MAX:]

    def _serve_ready(self) -> None:
        for _ in range(min(len(self._ready), SERVED_PER_TURN_MAX)):
            self._serve(self._ready.popleft())
        if self._ready:
            self._call_soon(self._serve_ready)

    def _serve(self, held: HeldPull) -> None:
        """Answer a pull, or let it wait on; it is in no queue's table."""
        connection = held.pull.connection
        try:
            over = connection.closed or self._serve_again(held.pull, held.expired)
        except Exception as error:  # noqa: BLE001  of this pull alone
            over = True
            self._failed(held.pull, error)
        if over:
            of_connection = self._of.get(connection)
            if of_connection is not None:
                of_connection.pop(held, None)
                if not of_connection:
                    del self._of[connection]
                self._forget(held)
        else:
            held.queue.holds[held] = None

    def _forget(self, held: HeldPull) -> None:
        self.count -= 1
        waiting = self._sweeps.get(held.sweep)
        if waiting is not None:
            waiting.pop(held, None)
            if not waiting:
                del self._sweeps[held.sweep]
