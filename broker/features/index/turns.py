"""Whose turn it is where one thing is done at a time: of connections, each in turn."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class TooManyWaitError(Exception):
    """One more would wait than may."""


class AskersTurns:
    """One at a time; connections take turns, those of one in the order they came.

    `each_max` of one connection may wait, `all_max` of all.
    """

    def __init__(self, each_max: int, all_max: int) -> None:
        self._each_max = each_max
        self._all_max = all_max
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # the next one first
        self._taken = False
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, connection: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and have it; raises TooManyWaitError."""
        if self._taken:
            await self._wait(connection)
        self._taken = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, connection: Hashable) -> None:
        of_it = self._waiting.get(connection, ())
        if self.waiting >= self._all_max or len(of_it) >= self._each_max:
            raise TooManyWaitError
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(connection, deque()).append(mine)
        self.waiting += 1
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it came at the same moment
                self._next()
            raise

    def _next(self) -> None:
        """Give the turn to the next connection, and put it behind the others."""
        while self._waiting:
            connection = next(iter(self._waiting))
            waiting = self._waiting.pop(connection)
            first = waiting.popleft()
            self.waiting -= 1
            if waiting:
                self._waiting[connection] = waiting
            if not first.done():
                first.set_result(None)
                return
        self._taken = False
