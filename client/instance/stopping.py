"""Serve until the process is told to end, and end with everything that was handled committed."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, Final

from aerobee.client.errors import InvalidUse, wrong_argument
from aerobee.client.instance.lifetime import Lifetime

log = logging.getLogger(__name__)

TOLD_AFTER_S: Final = 0.5  # that a close waits for handlers: most have ended before
SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)
"""Ctrl-C; what `docker stop`, systemd and `kill` send; Ctrl-Break of Windows."""


async def run(*clients: Lifetime) -> None:
    """Start these clients, serve until SIGINT or SIGTERM, then close them and return.

        asyncio.run(run(orders, invoices))  # two PushConsumers

    Closing lets running handlers end, for up to `handover_timeout_ms` (10 s), and commits what they
    have done: after a restart nothing comes twice. A second signal ends the process at once, as if
    nobody listened to it; what was not committed comes again then. It returns as well when all the
    clients were closed, as by a handler, and closes them when it is cancelled. Clients start in the
    order in which they are named; consumers are closed together, then the others, the last one
    first, so that handlers may use a producer that is named here, too.

    Signals are heard in the main thread alone; elsewhere cancel it. Windows knows Ctrl-C and
    Ctrl-Break: its other ways to end a process (`taskkill /F`, `Popen.terminate`) tell it nothing,
    and what was not committed within the last 5 s comes again, unless `PushSettings.commit` is
    "each". What was set for these signals before is set again afterwards. Raises InvalidUse without
    a client, and what their `start` raises, when those that had started are closed.
    """
    if not clients:
        raise InvalidUse("run() needs a client to start: run(consumer)")
    for client in clients:
        if not isinstance(client, Lifetime):
            raise wrong_argument("each of run's clients", "a consumer or a producer", client)
    with stop_signals() as stop:
        try:
            for client in clients:
                if not await unless(stop, client.start()):
                    return
            await unless(stop, _all_closed(clients))
        finally:
            await _close(clients)


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> bool:
    """Do `work`, and cancel it where `stop` comes first; whether it was done."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    if working.cancelled():
        return False
    working.result()
    return True


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Set the event at the first of SIGNALS within the block; a second ends the process."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask(number: int) -> None:
        name = signal.Signals(number).name
        loop.call_soon_threadsafe(log.info, "stopping, for there was %s", name)
        loop.call_soon_threadsafe(stop.set)

    with heard_signals(ask):
        yield stop


@contextlib.contextmanager
def heard_signals(ask: Callable[[int], None]) -> Iterator[None]:
    """Call `ask` at the first of SIGNALS within the block, in the main thread; a second ends it."""
    _signals.listen(ask)
    try:
        yield
    finally:
        _signals.forget(ask)


class _Signals:
    """Who is to be told of a signal; Python calls back in the main thread, whatever that does.

    So it does while a handler holds the loop: the second signal gets through there, too.
    """

    def __init__(self) -> None:
        self._asked: list[Callable[[int], None]] = []
        self._before: dict[int, Any] = {}
        self._came: int | None = None

    def listen(self, ask: Callable[[int], None]) -> None:
        """Call `ask` with the number of the first signal, also of one that has come already."""
        if not self._asked:
            self._came = None
            for number in SIGNALS:
                with contextlib.suppress(ValueError):  # not in the main thread
                    self._before[number] = signal.signal(number, self._heard)
        self._asked.append(ask)
        if self._came is not None:
            ask(self._came)

    def forget(self, ask: Callable[[int], None]) -> None:
        """Tell this one no more; with the last of them signals do what they did before."""
        self._asked.remove(ask)
        if self._asked:
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._heard:  # else somebody has set another since
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._came is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._came = number
        for ask in self._asked:
            ask(number)


_signals: Final = _Signals()


async def _all_closed(clients: tuple[Lifetime, ...]) -> None:
    for client in clients:
        await client.wait_closed()


async def _close(clients: tuple[Lifetime, ...]) -> None:
    """Close the consumers together, then the others; all of them, whatever one raises."""
    async with contextlib.AsyncExitStack() as last:
        for client in clients:
            if not client.consumes:
                last.push_async_callback(client.close)
        consumers = [client.close() for client in clients if client.consumes]
        for outcome in await asyncio.gather(*consumers, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
