"""A server as a process of its own: on the fastest loop there is, until somebody ends it."""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from aerobee.remoting.config.settings import ServerSettings
from aerobee.remoting.errors import AerobeeError, system_error
from aerobee.remoting.net.supervision.service_manager import ServiceManager
from aerobee.remoting.net.supervision.stop_while_starting import StopWhileStarting

T = TypeVar("T")
S = TypeVar("S", bound=ServerSettings)

log = logging.getLogger(__name__)

STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks for a clean stop: a service manager, Ctrl-C, a terminal that is closed."""
IMPATIENT: Final = 3
"""So many signals end the process at once, as a crash would; the next start recovers."""
PASSED_OVER: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Ask for new log files or statistics elsewhere; not taken, they would end the process at once."""
STDERR_FD: Final = 2
GEN0_THRESHOLD: Final = 50_000  # messages and registrations leave nothing for the collector


class Service(Protocol):
    """What a process serves."""

    async def start(self) -> None:
        """Return when it serves."""

    async def stop(self) -> None:
        """Return when everything is closed and kept."""

    def failed(self, what: str, error: BaseException) -> None:
        """Count and log an error that nobody caught; the process goes on."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on uvloop, or on asyncio's own loop, slower but complete.

    SIGTERM and SIGHUP cancel `main`, as Ctrl-C does, unless it handles them itself; when it has
    cleaned up, SystemExit says so with the code that shells give: 128 and the signal's number.

    uvloop is loaded here, where a process begins, and nowhere else: an embedding program has chosen
    its loop already.
    """
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(_cancelled_by_signals(main))
    return uvloop.run(_cancelled_by_signals(main))


async def _cancelled_by_signals(main: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    ended_by: list[int] = []

    def end(number: int) -> None:
        ended_by.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        return await main
    except asyncio.CancelledError:
        if ended_by:
            raise SystemExit(128 + ended_by[0]) from None
        raise


def load_and_run(
    kind: type[S], config_file: Path | None, options: Mapping[str, str], run: Callable[[S], int]
) -> int:
    """Load the settings, `run` what they are of, and return the exit code.

    Warnings, and the errors of both, are told on standard error.
    """
    try:
        settings, warnings = kind.load(config_file, options)
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return run(settings)
    except (AerobeeError, OSError) as error:
        text = system_error(error) if isinstance(error, OSError) else str(error)
        for line in text.splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1


async def serve(service: Service, announcement: Callable[[], str]) -> None:
    """Start, say so in one line on standard output, stop at SIGTERM, SIGINT or SIGHUP.

    `announcement` is asked once the service serves, when it knows its port. A stop that is asked
    for before that cancels the start, and `stop` is not called: who is cancelled cleans up. Where
    the start holds the loop, as the recovery of a store does, the process ends at once, with 0; to
    the files that is a kill. A second signal is told that the stop is under way, a third ends the
    process. SIGQUIT writes where every thread is to standard error, as the JVM does, also while the
    loop hangs; SIGUSR1 and SIGUSR2 are logged and do nothing. A service manager that waits for it
    (systemd's `Type=notify`) is told that it serves, that it stops, and that the loop turns. Raises
    what the service's start raises.
    """
    manager = ServiceManager.of_environment(os.environ)
    stop = asyncio.Event()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    asked: list[float] = []

    def ask(number: signal.Signals) -> None:
        if stopped.is_set():
            return  # it came while the last step held the loop: there is nothing left to cut short
        asked.append(loop.time())
        if len(asked) == 1:
            log.info("stop_asked signal=%s", number.name)
            manager.stops()
            stop.set()
            start.cancel()  # nothing, once it serves
        elif len(asked) < IMPATIENT:
            seconds = loop.time() - asked[0]
            log.warning(
                "stop_under_way signal=%s seconds=%.1f: one more signal ends the process at once",
                number.name,
                seconds,
            )
        else:
            log.error("stop_cut_short signal=%s: the next start recovers", number.name)
            os._exit(128 + number)

    start = loop.create_task(service.start())  # which runs when this waits for it
    _hear_signals(loop, ask)
    loop.set_exception_handler(partial(_tell_uncaught, service))
    asked_early = StopWhileStarting(loop, STOPS)
    try:
        await start
    except asyncio.CancelledError:
        if not asked:
            raise
        log.info("stopped_before_it_served seconds=%.1f", loop.time() - asked[0])
        return
    finally:
        asked_early.end()
    spare_collector()
    said = announcement()
    print(said, flush=True)
    manager.serves(said)
    end_beats = manager.beat(loop)
    await stop.wait()
    end_beats()
    await service.stop()
    stopped.set()


def _hear_signals(
    loop: asyncio.AbstractEventLoop, ask_to_stop: Callable[[signal.Signals], None]
) -> None:
    for number in STOPS:
        loop.add_signal_handler(number, ask_to_stop, number)
    for number in PASSED_OVER:
        loop.add_signal_handler(number, log.warning, "signal_ignored signal=%s", number.name)
    faulthandler.register(signal.SIGQUIT, file=STDERR_FD)


def spare_collector() -> None:
    """Keep what is here by now out of every search for garbage, and search seldom from now on.

    For a process that is a server and nothing else: of a program that embeds one, or of a test,
    the collector is its own.
    """
    gc.collect(1)  # the old ones are what was imported: no garbage, and a tenth of a start
    gc.freeze()
    gc.set_threshold(GEN0_THRESHOLD, *gc.get_threshold()[1:])


def _tell_uncaught(
    service: Service, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Have a service count what a callback raised, or a task that nobody waits for."""
    error = context.get("exception")
    if isinstance(error, Exception):
        service.failed("callback" if "handle" in context else "task", error)
    else:
        loop.default_exception_handler(context)
