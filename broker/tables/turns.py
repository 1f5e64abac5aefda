"""Long lists that a request brings or asks for, a part in each turn of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def in_turns(items: Iterable[Item], per_turn: int) -> AsyncIterator[Item]:
    """Yield the items; others have a turn after each `per_turn` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % per_turn == 0:
            await asyncio.sleep(0)
