"""Long lists: one page of them, and what can be told of its rows within a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from aerobee.remoting.errors import AerobeeError

ROWS: Final = 50
PAGE_MAX: Final = 1_000_000
FIGURES_S: Final = 2.5
"""So long a page waits for the figures of its rows; the others stay blank."""
AT_ONCE: Final = 16

K = TypeVar("K")
T = TypeVar("T")


class ListPage(Generic[T]):
    """The rows of one page of a list, with the way to its neighbours.

    `path` and `query` are the address of the list; pages count from 1, one behind the end is the
    last.
    """

    def __init__(
        self, items: Sequence[T], page: int, path: str, query: Mapping[str, str], rows: int = ROWS
    ) -> None:
        self.total = len(items)
        self.page = min(max(page, 1), max(1, -(-self.total // rows)))
        begin = (self.page - 1) * rows
        self.rows = items[begin : begin + rows]
        self.first = begin + 1 if self.rows else 0
        self.last = begin + len(self.rows)
        self._path = path
        self._query = {name: value for name, value in query.items() if value}

    def url(self, page: int) -> str:
        """Return the address of another page."""
        return f"{self._path}?{urlencode({**self._query, 'page': page})}"


def matching(names: Iterable[str], wanted: str) -> list[str]:
    """Return the names that have a text in them, whatever its case."""
    text = wanted.casefold()
    return [name for name in names if text in name.casefold()] if text else list(names)


async def in_time(
    items: Iterable[K],
    work: Callable[[K], Awaitable[T]],
    timeout_s: float = FIGURES_S,
    at_once: int = AT_ONCE,
) -> dict[K, T]:
    """Do something for each item, a few side by side; return what was done in time and well."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: K) -> T:
        async with gate:
            return await work(item)

    tasks: dict[asyncio.Task[Any], K] = {asyncio.ensure_future(one(item)): item for item in items}
    if not tasks:
        return {}
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        for task in tasks:
            task.cancel()
    found: dict[K, T] = {}
    for task in done:
        if task.cancelled():  # the connections to the cluster are being closed
            continue
        error = task.exception()
        if error is None:
            found[tasks[task]] = task.result()
        elif not isinstance(error, AerobeeError):
            raise error
    return found
