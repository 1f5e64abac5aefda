"""A peer that sends exactly the bytes a test tells it to, and reads frames one at a time."""

import asyncio
import ssl
from types import TracebackType
from typing import Self

from aerobee.remoting.command import Command
from aerobee.remoting.frame import decode_payload, encode_frame


class RawPeer:
    """A bare TCP connection; use `async with await RawPeer.connect(port)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(
        cls, port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> "RawPeer":
        """Open a connection, with TLS if a context is given."""
        return cls(*await asyncio.open_connection(host, port, ssl=tls))

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def request(self, command: Command) -> Command:
        """Send one command and return the next frame that comes."""
        await self.send(encode_frame(command))
        return await self.read()

    async def read(self, timeout_s: float = 5.0) -> Command:
        """Return the next frame; raises IncompleteReadError when the connection closes first."""
        async with asyncio.timeout(timeout_s):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return decode_payload(await self.reader.readexactly(size))

    async def closed(self, timeout_s: float = 5.0) -> bool:
        """Wait until the other side closes; False when it still stands after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while await self.reader.read(65_536):
                    pass
        except TimeoutError:
            return False
        except OSError:
            pass  # reset
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)
