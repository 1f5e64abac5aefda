"""What was read from a peer and waits to be served, and why no more is read from it."""

import asyncio
import enum
from typing import TYPE_CHECKING, Final, TypeAlias

from aerobee.remoting.net.partial_frame import PartialFrame

if TYPE_CHECKING:
    from aerobee.remoting.net.connection import Connection

STOP_UNSENT: Final = 1  # why the peer is not read from: it does not take its replies
STOP_WAITING: Final = 2  # ... or too many of its requests wait
_STOP_BACKLOG: Final = 4  # ... or what it sent before is still to be served
STOP_REFUSED: Final = 8  # ... or it was wrong about a secret, and is told so later
_SERVE_NO_MORE: Final = STOP_UNSENT | STOP_WAITING | STOP_REFUSED


class Rest(enum.Enum):
    """What `Connection.serve` leaves of a read; each value says when it is served."""

    BEGUN = "the beginning of a frame: with what arrives"
    LATER = "frames: when the other connections had their turn"
    ASIDE = "frames: when the peer takes its replies again, or somebody calls `go_on`"


Served: TypeAlias = tuple[bytes, Rest]
"""What is left of a read, from the beginning of a frame on, and what it is."""

ALL_SERVED: Final[Served] = (b"", Rest.BEGUN)


class ReadingSide:
    """The reading side of an open connection, which alone writes this.

    It keeps the beginning of a `frame`, or a `backlog` of frames, never both. `unread_from` says
    that the peer gets no further request served before it, or the disk, has moved on.
    """

    __slots__ = ("_connection", "_stops", "backlog", "frame", "frame_since_s", "unread_from")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._stops = 0
        self.backlog = b""
        self.frame = PartialFrame(connection.limits.frame_bytes_max)
        self.frame_since_s = 0.0  # of the loop; time in which the peer is not read from is left out
        self.unread_from = False

    def join(self, data: bytes) -> bytes:
        """Put what arrived behind what is kept; return what can be served, b"" if nothing can."""
        if self.backlog:  # a TLS transport may still deliver what it had when reading stopped
            self.backlog += data
            return b""
        whole = self.frame.gather(data)
        if whole:
            self._connection.budget.release_partial(self._connection)
        else:
            self._connection.budget.hold_partial(self._connection, self.frame.held_bytes)
        return whole

    def keep(self, rest: bytes, what: Rest) -> None:
        """Do as was said of what is left of a read; raises ProtocolError for what is no frame."""
        if what is Rest.BEGUN:
            self.frame.keep(rest)
            self.note_begun()
            self._connection.budget.hold_partial(self._connection, len(rest))
            return
        self.backlog = rest
        self.stop(_STOP_BACKLOG)
        if what is Rest.LATER:
            asyncio.get_running_loop().call_soon(self.go_on)

    def note_begun(self) -> None:
        """Note that a frame has begun of which the rest is to come."""
        self.frame_since_s = _now_s()

    def go_on(self) -> None:
        """Have the backlog served, unless the peer does not take its replies."""
        if self.unread_from or not self.backlog:
            return  # `resume` comes back
        data, self.backlog = self.backlog, b""
        self.resume(_STOP_BACKLOG)
        if not self._connection.closed:
            self._connection.data_received(data)

    def stop(self, why: int) -> None:
        """Read no more from the peer until `resume` has been called for every reason."""
        if not self._stops and not self._connection.transport.is_closing():
            self._connection.transport.pause_reading()
        self._set_stops(self._stops | why)

    def resume(self, why: int) -> None:
        """Take away one reason; go on with the backlog."""
        if self._stops == why and not self._connection.transport.is_closing():
            self._connection.transport.resume_reading()
            if self.frame.held_bytes:  # its rest could not arrive meanwhile: the time starts anew
                self.frame_since_s = _now_s()
                self._connection.budget.renew_partial(self._connection)
        self._set_stops(self._stops & ~why)
        if self.backlog:
            asyncio.get_running_loop().call_soon(self.go_on)

    def end(self) -> None:
        """Keep nothing any more: the connection is gone."""
        self.frame.clear()
        self.backlog = b""
        self._connection.budget.release_partial(self._connection)
        del self._connection  # or both would stay until the garbage collector comes

    def _set_stops(self, stops: int) -> None:
        self._stops = stops
        self.unread_from = bool(stops & _SERVE_NO_MORE)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
