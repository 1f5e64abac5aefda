"""A server that takes connections and never says a word."""

import asyncio
from typing import Self


class SilentServer:
    """`connections` counts those it was asked for; `address` is host:port."""

    def __init__(self) -> None:
        self.address = ""
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def connections(self) -> int:
        """How many there were."""
        return len(self._writers)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
