"""A connection to a broker of this process whose other end is the test: no socket in between."""

import asyncio

from aerobee.broker.app import Broker
from aerobee.broker.front.connection import BrokerConnection
from aerobee.remoting.command import Command
from aerobee.remoting.frame import FrameReader


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, peer: str = "127.0.0.1") -> None:
        super().__init__({"peername": (peer, 5555)})
        self.written = bytearray()
        self.ended = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def get_write_buffer_size(self) -> int:
        """Nothing is ever buffered."""
        return 0

    def is_closing(self) -> bool:
        """Whether the broker has had enough."""
        return self.ended

    def is_reading(self) -> bool:
        """Whether what arrives is delivered."""
        return not self.paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """The test delivers, to whom it likes."""

    def pause_reading(self) -> None:
        """The broker wants no more for now."""
        self.paused = True

    def resume_reading(self) -> None:
        """The broker goes on."""
        self.paused = False

    def close(self) -> None:
        """The broker closes."""
        self.ended = True

    abort = close

    def replies(self) -> list[Command]:
        """Decode what was written."""
        reader = FrameReader()
        reader.feed(bytes(self.written))
        return list(reader)


def connect(broker: Broker, peer: str = "127.0.0.1") -> tuple[BrokerConnection, Wire]:
    """Attach a connection whose other end is the test; `peer` is where it seems to come from."""
    connection, wire = BrokerConnection(broker.context.front.traffic), Wire(peer)
    connection.connection_made(wire)
    return connection, wire


async def feed(connection: BrokerConnection, wire: Wire, pieces: list[bytes]) -> None:
    """Deliver pieces as a socket would, letting the loop turn between them."""
    for piece in pieces:
        for _ in range(1000):
            if not wire.paused or wire.ended:
                break
            await asyncio.sleep(0)
        if wire.ended:
            return
        connection.data_received(piece)
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
