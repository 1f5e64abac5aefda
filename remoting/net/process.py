"""A server as a process of its own: on the fastest loop there is, until somebody ends it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Service(Protocol):
    """What a process serves."""

    async def start(self) -> None:
        """Return when it serves."""

    async def stop(self) -> None:
        """Return when everything is closed and kept."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on uvloop, or on asyncio's own loop, slower but complete.

    uvloop is loaded here, where a process begins, and nowhere else: an embedding program has chosen
    its loop already.
    """
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(main)
    return uvloop.run(main)


async def serve(service: Service, announcement: Callable[[], str]) -> None:
    """Start, say so in one line on standard output, stop at SIGTERM or SIGINT.

    `announcement` is asked once the service serves, when it knows its port. Raises what the
    service's start raises.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await service.start()
    print(announcement(), flush=True)
    await stop.wait()
    await service.stop()
