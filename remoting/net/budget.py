"""What all connections of one server or pool hold together, and who is cut off when it is too much.

A limit per connection bounds nothing when there are ten thousand of them. Three sums are kept:
bytes of unfinished frames, bytes that slow readers have not taken yet, and bytes of requests that
wait. Past the limit of the first two the connection that has been at it longest goes: a peer that
stalls is older than one that works. Past the third those that add to it are not read from.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.reading import STOP_WAITING

if TYPE_CHECKING:
    from aerobee.remoting.net.connection import Connection

IDLE_LOOKS: Final = 4  # per idle time-out; a connection silent at so many of them is closed


class Budget:
    """Sums over the connections of one owner; `closed` counts closings by their reason."""

    __slots__ = (
        "closed",
        "limits",
        "partial_bytes",
        "partials",
        "unsent",
        "unsent_bytes",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, limits: NetLimits) -> None:
        self.limits = limits
        self.partial_bytes = 0
        self.partials: dict[Connection, int] = {}  # bytes held, in the order the frames began
        self.unsent_bytes = 0
        self.unsent: dict[Connection, int] = {}  # bytes unsent, in the order they were paused
        self.waiting_bytes = 0
        self.waiting: dict[Connection, tuple[int, int]] = {}  # requests, bytes of their bodies
        self.closed: Counter[str] = Counter()

    def hold_partial(self, connection: "Connection", held_bytes: int) -> None:
        """Account for an unfinished frame; the oldest one pays when all together are too large."""
        self.partial_bytes += held_bytes - self.partials.get(connection, 0)
        self.partials[connection] = held_bytes
        while self.partial_bytes > self.limits.partial_bytes_max:
            oldest = next(iter(self.partials))
            oldest.abort("partial frames")
            self.release_partial(oldest)

    def release_partial(self, connection: "Connection") -> None:
        """The frame is complete, or its connection gone."""
        self.partial_bytes -= self.partials.pop(connection, 0)

    def renew_partial(self, connection: "Connection") -> None:
        """Take an unfinished frame for one that has just begun: it was not read on till now."""
        if (held_bytes := self.partials.pop(connection, None)) is not None:
            self.partials[connection] = held_bytes

    def hold_unsent(self, connection: "Connection", unsent_bytes: int) -> None:
        """Account for a paused peer's unsent bytes; the one paused longest pays for too many."""
        self.unsent_bytes += unsent_bytes - self.unsent.get(connection, 0)
        self.unsent[connection] = unsent_bytes
        while self.unsent_bytes > self.limits.unsent_bytes_max:
            oldest = next(iter(self.unsent))
            oldest.abort("slow readers")
            self.release_unsent(oldest)

    def release_unsent(self, connection: "Connection") -> None:
        """The peer has taken what was waiting for it, or is gone."""
        self.unsent_bytes -= self.unsent.pop(connection, 0)

    def begin_waiting(self, connection: "Connection", body_bytes: int) -> None:
        """A request's processor waits for something: read no more from a peer with too many."""
        if self._count_waiting(connection, 1, body_bytes) and not connection.closed:
            connection.reading.stop(STOP_WAITING)

    def end_waiting(self, connection: "Connection", body_bytes: int) -> None:
        """A waiting request has been answered."""
        if not self._count_waiting(connection, -1, -body_bytes) and not connection.closed:
            connection.reading.resume(STOP_WAITING)

    def _count_waiting(self, connection: "Connection", more: int, more_bytes: int) -> bool:
        """Count requests of a peer that wait; return whether there are too many of them."""
        requests, held_bytes = self.waiting.pop(connection, (0, 0))
        requests, held_bytes = requests + more, held_bytes + more_bytes
        self.waiting_bytes += more_bytes
        if requests:
            self.waiting[connection] = requests, held_bytes
        limits = self.limits
        return requests > 0 and (
            requests >= limits.waiting_requests_max
            or held_bytes > limits.waiting_bytes_max
            or self.waiting_bytes > limits.waiting_total_bytes_max
        )

    def sweep(self, now_s: float) -> None:
        """Cut off those that have not finished a frame, or not read their replies, in time."""
        for connection in list(self.partials):
            if now_s - connection.reading.frame_since_s < self.limits.frame_timeout_s:
                break  # the others began later
            if connection.reading.unread_from:
                continue  # its rest cannot arrive; `ReadingSide.resume` lets its time start anew
            connection.abort("frame timeout")
            self.release_partial(connection)
        for connection in list(self.unsent):
            if now_s - connection.paused_since_s >= self.limits.write_timeout_s:
                connection.abort("write timeout")
                self.release_unsent(connection)
            else:
                connection.measure_unsent()


def close_idle(connections: "Iterable[Connection]") -> None:
    """Close those on which nothing had arrived at so many looks, of which this is one."""
    for connection in list(connections):
        if connection.count_silence() >= IDLE_LOOKS and not connection.closed:
            connection.close("idle")
