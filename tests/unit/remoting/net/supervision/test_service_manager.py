"""What a service manager hears: a real socket of its kind, in the file system or beside it."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from aerobee.remoting.net.supervision.service_manager import BEATS_PER_TIMEOUT, ServiceManager

TIMEOUT_S = 30.0
CHILD = """
import asyncio, os, sys
from aerobee.remoting.net import process
class Quick:
    async def start(self): assert "NOTIFY_SOCKET" not in os.environ, "children would have it"
    async def stop(self): print("stopped", flush=True)
    def failed(self, what, error): raise error
process.run(process.serve(Quick(), lambda: "serves on a port"))
"""


@pytest.fixture(params=["a file", "beside the file system"])
def listening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, socket.socket]]:
    """Listen as a manager does; give its address as a process is told it."""
    abstract = request.param != "a file"
    address = f"@aerobee-{uuid4()}" if abstract else str(tmp_path / "notify")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(address.replace("@", "\0", 1) if abstract else address)
        manager.settimeout(TIMEOUT_S)
        yield address, manager


def said(manager: socket.socket) -> list[str]:
    """Return the lines of the next datagram."""
    return manager.recv(4096).decode().splitlines()


def test_a_server_says_when_it_serves_and_when_it_stops(
    listening: tuple[str, socket.socket],
) -> None:
    """And, in between, that its loop turns: often enough for one word to be lost."""
    address, manager = listening
    environ = {**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], env=environ, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert said(manager) == ["READY=1", "STATUS=serves on a port"]
            assert [said(manager) for _ in range(3)] == [["WATCHDOG=1"]] * 3
            child.send_signal(signal.SIGTERM)
            lines = said(manager)
            while lines == ["WATCHDOG=1"]:
                lines = said(manager)
            assert lines == ["STOPPING=1", "STATUS=stopping"]
            assert child.communicate(timeout=TIMEOUT_S)[0].endswith("stopped\n")
        finally:
            child.kill()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)  # nothing is said of a loop that ends


@pytest.mark.parametrize(
    ("environ", "beats"),
    [
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000000"}, True),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, False),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, False),
        ({"NOTIFY_SOCKET": "/n"}, False),
        ({"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "3000000"}, False),
        ({"WATCHDOG_USEC": "3000000"}, False),
        ({}, False),
    ],
)
def test_beats_are_for_who_asks_this_process(environ: dict[str, str], beats: bool) -> None:
    """Another process' watchdog is none of ours; children of this one find nothing to answer to."""
    environ["HOME"] = "/"
    found = ServiceManager.of_environment(environ)
    assert found.beat_s == (3.0 / BEATS_PER_TIMEOUT if beats else 0)
    assert environ == {"HOME": "/"}


async def test_a_manager_that_is_gone_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so, not one for each beat."""
    gone = ServiceManager(str(tmp_path / "gone"), watchdog_s=0.03)
    with caplog.at_level(logging.WARNING):
        gone.serves("here")
        gone.beat(asyncio.get_running_loop())()
        gone.stops()
    assert [record.message.split(" error=")[0] for record in caplog.records] == [
        "service_manager_not_told said=READY=1"
    ]
