"""What whoever started this process hears of it: that it serves, stops, is alive."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, MutableMapping
from typing import Final, Self

log = logging.getLogger(__name__)

ADDRESS: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"
BEATS_PER_TIMEOUT: Final = 3  # one that comes late, and one that is lost, end nothing
PATIENCE_S: Final = 1.0  # for a manager that takes nothing: a server goes on without it


class ServiceManager:
    """systemd, or whoever speaks as it does (sd_notify): one datagram for each thing to say.

    With no address nobody waits to hear, and nothing is sent. `watchdog_s` is how long the manager
    bears to hear nothing of a process that serves, 0 for ever.
    """

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        # a leading @ stands for the 0 of a name that is not in the file system
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.beat_s: Final = watchdog_s / BEATS_PER_TIMEOUT
        self._failed = False

    @classmethod
    def of_environment(cls, environ: MutableMapping[str, str]) -> Self:
        """Find who waits to hear of this process, and keep it from the children of this one.

        What is no address of a local socket, or no number, is passed over.
        """
        address = environ.pop(ADDRESS, "")
        wanted, process = environ.pop(WATCHDOG, ""), environ.pop(WATCHDOG_PROCESS, "")
        if address[:1] not in ("/", "@"):
            return cls()
        watched = wanted.isdecimal() and process in ("", str(os.getpid()))
        return cls(address, int(wanted) / 1e6 if watched else 0.0)

    def tell(self, *lines: str) -> None:
        """Say some things at once, `READY=1` for one; what cannot be said is logged once.

        Waits PATIENCE_S at most.
        """
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(PATIENCE_S)
                sending.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                log.warning("service_manager_not_told said=%s error=%s", lines[0], error)
            self._failed = True

    def serves(self, status: str) -> None:
        """Say that the process serves; `status` is a line for people."""
        self.tell("READY=1", f"STATUS={status}")

    def stops(self) -> None:
        """Say that the process has begun to stop."""
        self.tell("STOPPING=1", "STATUS=stopping")

    def beat(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Say from now on that the loop turns, where that is asked for; return what ends it."""
        if not self.beat_s:
            return lambda: None
        next_beat: list[asyncio.TimerHandle] = []

        def say() -> None:
            self.tell("WATCHDOG=1")
            next_beat[:] = [loop.call_later(self.beat_s, say)]

        say()
        return lambda: next_beat[0].cancel()
