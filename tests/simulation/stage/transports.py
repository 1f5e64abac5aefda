"""A connection in memory: two transports, and between them bytes that take their time.

Within one direction bytes arrive in order, as TCP has it; how long each piece takes is the
network's choice. A sender that its peer does not read from is told to pause.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from simulation.stage.process import Process

if TYPE_CHECKING:
    from simulation.stage.network import Wire

WINDOW_BYTES: Final = 128 * 1024  # on the way or unread; a sender keeps the rest
HIGH_BYTES: Final = 64 * 1024
APART_S: Final = 1e-7  # between two arrivals at one end: equal times could change places

Address = tuple[str, int]


class End(asyncio.Transport):
    """One process's side of a connection.

    `attach` gives it the protocol; what arrives before waits. `lose` ends it at once, as a reset,
    a time-out or the death of its process does.
    """

    def __init__(self, wire: "Wire", process: Process, sockname: Address, peername: Address):
        super().__init__()
        self.wire = wire
        self.process = process
        self.sockname, self.peername = sockname, peername
        self.name = f"{process.name}:{sockname[1]}"
        self.peer: End
        self.lost = False
        self.arrives_s = 0.0  # when what was sent last will reach the peer
        self.flying_bytes = 0  # sent by this end and not yet read by the peer
        self._protocol: asyncio.Protocol | asyncio.BufferedProtocol | None = None
        self._error: Exception | None = None
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._inbox: deque[bytes | None] = deque()  # None: the peer has said all
        self._reading = True
        self._closing = False
        self._writing_paused = False
        self._high_bytes, self._low_bytes = HIGH_BYTES, HIGH_BYTES // 4
        process.ends[self] = None

    # --- what the network does with it ---

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Begin: `protocol` is told, then gets what has arrived already."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self.lost:  # while it waited to be accepted
            self._soon(protocol.connection_lost, self._error)
        self._soon(self._deliver)

    def arrive(self, data: bytes | None) -> None:
        """Take bytes off the wire, or the peer's good-bye."""
        self._inbox.append(data)
        self._deliver()

    def read_by_peer(self, count: int) -> None:
        """Go on sending: the peer has read some."""
        self.flying_bytes -= count
        self._pump()

    def lose(self, error: Exception | None) -> None:
        """End here and now; the protocol hears of it in the next turn."""
        if self.lost:
            return
        self.lost = self._closing = True
        self._error = error
        self._inbox.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        self.process.ends.pop(self, None)
        self.wire.ended(self)
        if self._protocol is not None:
            self._soon(self._protocol.connection_lost, error)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        context = self.process.context.copy()
        asyncio.get_running_loop().call_soon(callback, *args, context=context)

    def _deliver(self) -> None:
        while self._inbox and self._reading and not self._closing and self._protocol is not None:
            data = self._inbox.popleft()
            if data is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                self._land(self._protocol, data)
                continue
            self.peer._soon(self.peer.read_by_peer, len(data))
            self.wire.read(self, data)
            self._protocol.data_received(data)

    def _land(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        """Read as much as the protocol has room for; the rest comes with the next read."""
        room = memoryview(protocol.get_buffer(-1)).cast("B")
        count = min(len(room), len(data))
        room[:count] = data[:count]
        room.release()
        if data[count:]:
            self._inbox.appendleft(data[count:])
        self.peer._soon(self.peer.read_by_peer, count)
        self.wire.read(self, data[:count])
        protocol.buffer_updated(count)

    def _pump(self) -> None:
        while self._unsent and self.flying_bytes < WINDOW_BYTES and not self.lost:
            data = self._unsent.popleft()
            room = self.wire.piece_bytes(WINDOW_BYTES - self.flying_bytes, len(data))
            if room < len(data):
                self._unsent.appendleft(data[room:])
                data = data[:room]
            self._unsent_bytes -= len(data)
            self.flying_bytes += len(data)
            self.wire.send(self, data)
        if self._writing_paused and self._unsent_bytes <= self._low_bytes and not self.lost:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()
        if self._closing and not self._unsent and not self.lost:
            self.wire.send(self, None)
            self.lose(None)

    # --- asyncio.Transport, as protocols see it ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; what the peer does not take yet waits here."""
        if self._closing or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self._pump()
        if self._unsent_bytes > self._high_bytes and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def close(self) -> None:
        """Send what waits, say good-bye, end."""
        if not self._closing:
            self._closing = True
            self._pump()

    def abort(self) -> None:
        """End at once; the peer's connection is reset."""
        if not self.lost:
            self.wire.reset_peer(self)
            self.lose(None)

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closing

    def pause_reading(self) -> None:
        """Leave what arrives unread."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        if not self._reading:
            self._reading = True
            self._soon(self._deliver)

    def is_reading(self) -> bool:
        """Whether it reads."""
        return self._reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another protocol what arrives from now on."""
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many unsent bytes on the protocol is told to pause, and to resume."""
        self._high_bytes = HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are unsent."""
        return self._unsent_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return "peername" or "sockname"; there is no socket."""
        return {"peername": self.peername, "sockname": self.sockname}.get(name, default)
