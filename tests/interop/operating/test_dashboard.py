"""What RocketMQ's dashboard shows of our brokers is what it shows of RocketMQ's, field by field.

Its own jar is not published, so a program makes the calls behind each of its pages, through the
client library of the version that it pins. What differs on purpose is listed, with the reason.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from support.interop import toolchain
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

RUN_SECONDS_MAX: Final = 150
CALLS: Final = (
    "cluster", "cluster.status", "cluster.config", "ops.namesrv", "topic.list", "topic.types",
    "topic.config", "topic.route", "topic.stats", "topic.consumers", "topic.puts", "topic.gets",
    "topic.unknown", "group.list", "group.config", "group.progress", "group.progress.topic",
    "group.progress.broker", "group.connection", "group.connection.broker", "group.running",
    "group.offline", "producer", "producer.unknown", "message.byId", "message.byUniqueKey",
    "message.byKey", "message.byNoKey", "message.track", "message.again", "message.byTime",
    "message.beforeAll", "dlq", "dlq.route",
)  # fmt: skip
COMMON: Final = frozenset({"cluster.status", "cluster.config"})
"""Of settings those that both have are compared; of the state that ours has what theirs has."""


BY_PATH: Final = "commitLogDiskRatio_"
"""Fields of RocketMQ, one for each path of the log, named after it; there may be several there."""


class Difference(NamedTuple):
    """Fields of one call that are not compared; `path` is looked for in each."""

    call: str
    path: str
    why: str


DIFFERENCES: Final = (
    Difference("cluster.config", r"^(haL|l)istenPort|^osPageCacheBusy", "of the test"),
    Difference("cluster.config", r"^stor(e|age)Path", "a place"),
    Difference("dlq", r"properties\.DLQ_ORIGIN_", "ours: they say where they come from"),
    Difference("topic.list", r"RMQ_SYS_TRANS_(OP_)?HALF", "noted from the start how far it looked"),
)

_MASKS: Final = (
    (re.compile(r"\b1[789]\d{11}\b"), "<ms>"),
    (re.compile(r"\b[0-9A-F]{32,}\b"), "<id>"),
    (re.compile(r"(?:127\.0\.0\.1|/127\.0\.0\.1):\d+"), "<address>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}:\d+"), "<address>"),
    (re.compile(r"\[\w+\]|opaque=\d+"), "<mark>"),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """What each call returned, by kind of server."""
    yield {
        kind.name: _run(kind, tmp_path_factory.mktemp(kind.name)) for kind in (Aerobee, RocketMQ)
    }


def _run(kind: type[Cluster], folder: Path) -> dict[str, Any]:
    """Run the program against a nameserver and a broker."""
    classes = toolchain.java_classes("client-5.3.3")
    path = f"{classes}:{toolchain.classpath('client-5.3.3')}"
    words = [toolchain.tool("java"), "-Xmx256m", "-XX:+UseSerialGC", f"-Duser.home={folder}"]
    with kind(folder / "cluster") as cluster:
        done = subprocess.run(
            [*words, "-cp", path, "Dashboard", cluster.namesrv, cluster.broker],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS_MAX,
        )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    lines = (line.split("\t", 2) for line in done.stdout.splitlines() if line.startswith("call\t"))
    return {call: json.loads(text) for _, call, text in lines}


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield every field with its place, without what differs from run to run."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from fields(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from fields(item, f"{path}[{at}]")
    else:
        text = f"{path} = {value}"
        for pattern, mask in _MASKS:
            text = pattern.sub(mask, text)
        yield text


@pytest.mark.parametrize("call", CALLS)
def test_a_page_shows_the_same(shown: dict[str, dict[str, Any]], call: str) -> None:
    """But for the fields that are listed."""
    left_out = [each.path for each in DIFFERENCES if each.call == call]
    ours, theirs = (
        sorted(
            field
            for field in fields(shown[kind][call])
            if not any(re.search(each, field) for each in left_out)
        )
        for kind in ("aerobee", "rocketmq")
    )
    if call in COMMON:
        keys = [{field.split(" = ")[0] for field in found} for found in (ours, theirs)]
        if call == "cluster.status":  # of measures of the moment
            assert keys[1] - keys[0] <= {key for key in keys[1] if key.startswith(BY_PATH)}
            return
        both = keys[0] & keys[1]
        ours, theirs = (
            [field for field in found if field.split(" = ")[0] in both] for found in (ours, theirs)
        )
    assert ours == theirs
    assert ours or call in ("message.byNoKey", "message.beforeAll")


def test_all_calls_are_compared(shown: dict[str, dict[str, Any]]) -> None:
    """Those that the program makes."""
    assert set(shown["aerobee"]) == set(shown["rocketmq"]) == set(CALLS)


def test_what_is_listed_is_shown(shown: dict[str, dict[str, Any]]) -> None:
    """A difference that is none any more must go as well."""
    for each in DIFFERENCES:
        both = [field for kind in shown.values() for field in fields(kind[each.call])]
        assert any(re.search(each.path, field) for field in both), each
