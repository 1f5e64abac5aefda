"""Child processes with a log file each, and free ports for them."""

import atexit
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

STOP_SECONDS_MAX: Final = 90  # of a JVM on a busy machine
BELOW_MAX: Final = 8  # ports beneath one that belong to it
_given: Final[set[int]] = set()  # ports: of two servers one may not listen yet


class ServerFailed(Exception):
    """A server ended, or did not serve in time; the text ends with the tail of its log."""


class Process:
    """One child process whose output goes to a file."""

    def __init__(
        self, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log_file = log_file
        self._log = log_file.open("ab")
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
        )
        self.pid = self._child.pid
        atexit.register(self._child.kill)  # nothing outlives the tests; no-op once it has ended

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._child.poll() is None

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Return once `condition` holds; ServerFailed when the process ends first or time is up."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.expect_running(what)
            if time.monotonic() > deadline:
                raise ServerFailed(f"{what}: not within {seconds} s\n{self.tail()}")
            time.sleep(0.05)

    def expect_running(self, what: str) -> None:
        """Raise ServerFailed when the process has ended."""
        if not self.running:
            raise ServerFailed(
                f"{what}: the process ended with {self._child.returncode}\n{self.tail()}"
            )

    def stop(self) -> int:
        """End the process by SIGTERM and return its exit status."""
        if self.running:
            self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerFailed(
                f"the process did not stop within {STOP_SECONDS_MAX} s\n{self.tail()}"
            ) from error
        finally:
            self._forget()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status of a process that was told to end, None where it goes on."""
        try:
            status = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._forget()
        return status

    def kill(self) -> None:
        """End the process by SIGKILL."""
        if self.running:
            self._child.kill()
        self._child.wait()
        self._forget()

    def _forget(self) -> None:
        atexit.unregister(self._child.kill)
        self._log.close()

    def tail(self, characters: int = 3000) -> str:
        """Return the end of what the process printed."""
        return self.log_file.read_text(errors="replace")[-characters:]


def free_port(*, also_below: int = 0) -> int:
    """Return a port that nobody listens on, with `also_below` free ports right beneath it.

    Taken from under the range that the kernel hands out to clients, so that a connection that is
    opened meanwhile cannot sit on it. Workers of one run have ports of their own: what one of them
    was given and does not listen on yet looks free to the others.
    """
    ports = _ports_of_worker()
    for _ in range(200):
        port = random.SystemRandom().choice(ports)  # whatever a test has seeded
        wanted = range(port - also_below, port + 1)
        if _given.isdisjoint(wanted) and all(map(_is_free, wanted)):
            _given.update(wanted)
            return port
    raise ServerFailed(f"no free port found in {ports.start}-{ports.stop}")


def _ports_of_worker() -> range:
    """Return the ports among which this worker chooses, with room beneath them."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = 20_000 // count
    begin = 12_000 + number % count * each
    return range(begin + min(BELOW_MAX, each // 2), begin + each)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
