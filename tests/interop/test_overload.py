"""Foreign producers go elsewhere while a broker refuses what waited too long."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.peers import Content
from support.interop.processes import free_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

MESSAGES = 40
STALL_S, AWAKE_S = 0.4, 0.01
REFUSING = {"brokerFastFailureEnable": "true"}
REFUSED = re.compile(r"^aerobee_late_sends_refused_total\S* (\S+)$", re.MULTILINE)


@contextmanager
def stalling(pid: int) -> Iterator[None]:
    """Let a process stand still most of the time, and long enough for all sends to be late."""
    over = threading.Event()

    def stall() -> None:
        while not over.wait(AWAKE_S):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STALL_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stall)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def refused_by(http_port: int) -> float:
    """Return how many sends a broker has refused for having waited too long."""
    with closing(HTTPConnection("127.0.0.1", http_port, timeout=10)) as connection:
        connection.request("GET", "/metrics")
        found = REFUSED.search(connection.getresponse().read().decode())
    assert found
    return float(found[1])


@pytest.mark.needs("java")
def test_java_producers_go_to_the_other_broker(tmp_path: Path) -> None:
    """No send fails: what one broker refuses is tried again at once, at the other."""
    http_port = free_port()
    settings = {"httpPort": str(http_port)} | REFUSING
    with (
        Aerobee(tmp_path / "a", settings=settings) as first,
        Aerobee(tmp_path / "b", settings={"brokerName": "broker-b"}) as second,  # takes all
    ):
        second.kill()
        second.namesrv, second.namesrv_process = first.namesrv, first.namesrv_process
        second.start()
        messages = [Content("Tag", f"key-{i}", b"%d" % i) for i in range(MESSAGES)]
        peers.JAVA_5.produce(first.namesrv, "busy", messages[:8])  # both know the topic now
        assert first.broker_process is not None
        before = refused_by(http_port)
        with stalling(first.broker_process.pid):
            sent = peers.JAVA_5.produce(first.namesrv, "busy", messages)
        assert [answer["status"] for answer in sent] == ["SEND_OK"] * MESSAGES
        assert refused_by(http_port) > before, "or the test has shown nothing"
