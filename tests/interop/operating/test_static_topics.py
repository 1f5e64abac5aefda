"""A static topic of RocketMQ's tools and Java client: made, used, moved, and used on.

Each server in turn has a nameserver and three brokers. The client sends numbers all the time and
consumes them; a send that is refused is sent again.
"""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.interop import toolchain
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.mqadmin import MqAdmin, several_brokers
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(240)]

TOPIC: Final = "mapped"
QUEUES: Final = 4
SCOPE: Final = "__syslo__global__"
WAIT_SECONDS_MAX: Final = 60


class Client:
    """The Java program, and what it has said."""

    def __init__(self, namesrv: str, log: Path) -> None:
        classes = toolchain.java_classes("client-5.5.0")
        path = f"{classes}:{toolchain.classpath('client-5.5.0')}"
        words = [toolchain.tool("java"), "-Xmx256m", "-XX:+UseSerialGC", "-cp", path]
        self.said: list[dict[str, Any]] = []
        with log.open("w") as errors:
            self._child = subprocess.Popen(
                [*words, "Mapped", namesrv, TOPIC, "g"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):
                self.said.append(json.loads(line))

    def lines(self, what: str) -> list[dict[str, Any]]:
        """Return the lines of a kind."""
        return [line for line in list(self.said) if line.get("what") == what]

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Return when something has come true."""
        deadline_s = time.monotonic() + WAIT_SECONDS_MAX
        while not done():
            assert time.monotonic() < deadline_s, (what, self.said[-5:])
            time.sleep(0.1)

    def stop_sending(self) -> None:
        """Return when the last send has been answered."""
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        self.wait(lambda: {"event": "stopped"} in self.said, "the end of sending")

    def end(self) -> None:
        """End the program."""
        self._child.kill()
        self._child.wait()
        self._reader.join()


@pytest.fixture(params=[Aerobee, RocketMQ])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Cluster]]:
    """Three brokers of each server."""
    with several_brokers(request.param(tmp_path / "cluster")) as running:
        yield running


def test_a_java_client_goes_on_through_a_remapping(brokers: list[Cluster], tmp_path: Path) -> None:
    """Nothing is lost or comes twice; queues keep their ids, and offsets grow."""
    namesrv = brokers[0].namesrv
    with MqAdmin(tmp_path) as admin:
        made = admin.run(
            ["updateStaticTopic", "-n", namesrv, "-t", TOPIC, "-qn", str(QUEUES), "-b", "broker-a"]
        )
        assert "new mapping data" in made.text, made.text
        client = Client(namesrv, tmp_path / "client.log")
        try:
            client.wait(lambda: len(client.lines("got")) > 40, "the first messages")
            before = len(client.lines("sent"))
            moved = admin.run(
                ["remappingStaticTopic", "-n", namesrv, "-t", TOPIC, "-b", "broker-b,broker-c"]
            )
            assert "Exception" not in moved.text, moved.text
            client.wait(lambda: len(client.lines("sent")) > before + 100, "sends after it")
            client.stop_sending()
            sent = client.lines("sent")
            client.wait(
                lambda: (
                    {line["text"] for line in client.lines("got")}
                    >= {line["text"] for line in sent}
                ),
                "all that was sent",
            )
            got = client.lines("got")
        finally:
            client.end()
    assert not client.lines("failed")
    assert {line["text"] for line in client.lines("refused")} <= {"501"}
    assert max(Counter(line["text"] for line in got).values()) == 1
    for queue in range(QUEUES):
        offsets = {line["text"]: line["offset"] for line in sent if line["queue"] == queue}
        seen = [(line["text"], line["offset"]) for line in got if line["queue"] == queue]
        seen.sort(key=lambda line: line[1])  # several threads have handled them
        assert [number for number, _ in seen] == sorted(offsets, key=int)
        assert all(offset == offsets[text] or offsets[text] == -1 for text, offset in seen)
        assert max(offset for _, offset in seen) >= 10_000
    assert {line["broker"] for line in got} == {SCOPE}
