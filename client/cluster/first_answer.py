"""The first answer of servers that all know the same; one that is silent holds nobody up."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from aerobee.remoting.errors import AerobeeError

T = TypeVar("T")

PATIENCE_S: Final = 0.5  # then another one is asked as well


async def first_answer(
    addresses: Iterable[str],
    ask: Callable[[str], Coroutine[Any, Any, T]],
    passed_over: type[AerobeeError] = AerobeeError,
) -> tuple[str, T]:
    """Return who answered, and what; each is asked when the one before fails or is silent.

    A silent one may still answer, for as long as no other does. Raises the last of the errors that
    are `passed_over` where all fail, any other error at once, ValueError without addresses.
    """
    left = iter(addresses)
    waiting: dict[asyncio.Task[T], str] = {}
    problem: AerobeeError | None = None
    try:
        while True:
            address = next(left, None)
            if address is not None:
                waiting[asyncio.create_task(ask(address))] = address
            elif not waiting:
                raise problem or ValueError("there is nobody to ask")
            patience_s = PATIENCE_S if address is not None else None
            done, _ = await asyncio.wait(
                waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            for task in [each for each in waiting if each in done]:
                address = waiting.pop(task)
                try:
                    return address, task.result()
                except passed_over as error:
                    problem = error
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
