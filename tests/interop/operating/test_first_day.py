"""An operator's first day: each command of the page, with aerobee and with mqadmin."""

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.mqadmin import MqAdmin
from support.interop.rocketmq_server import RocketMQ
from support.runs.source_tree import ROOT
from support.servers.commands import Commands

from aerobee.admin import AdminClient
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.client.settings import PushSettings

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(600)]

PAGE: Final = (ROOT / "docs" / "operating" / "first_day.md").read_text()
ROW: Final = re.compile(r"^\| (\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
TASKS: Final = 40
FAILED: Final = re.compile(r"^\s+at [\w.$]+\(|^usage: mqadmin", re.MULTILINE)
"""What mqadmin, which ends with 0, prints of an exception, and of a call that cannot be."""
PROVIDER: Final = (
    "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
)
SETTINGS: Final = {
    "messageDelayLevel": "1s 1s 1s 1s",
    "authenticationMetadataProvider": PROVIDER,
    "authorizationMetadataProvider": PROVIDER.replace("uthentication", "uthorization"),
}


class Task(NamedTuple):
    """A row of the page."""

    number: int
    what: str
    aerobee: list[str]
    mqadmin: list[str]


def tasks() -> list[Task]:
    """Read the page."""
    return [
        Task(int(number), what.strip(), *(re.findall(r"`([^`]+)`", cell) for cell in cells))
        for number, what, *cells in ROW.findall(PAGE)
    ]


class Members:
    """A producer, and a consumer that fails at what is sent to it, in a thread of their own."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))
        self.client_id = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _run(self) -> None:
        died = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            died.set()
            raise ValueError("cannot")

        consumer = PushConsumer(
            "billing",
            namesrv=self._namesrv,
            consume_from=ConsumeFrom.FIRST,
            settings=PushSettings(max_reconsume_times=0),
        )
        consumer.subscribe("orders", handle)
        async with Producer("shop", namesrv=self._namesrv) as producer, consumer:
            await producer.send(Message("orders", b"hello", keys=["order-0"]))
            await asyncio.wait_for(died.wait(), 50)
            self.client_id = consumer.client_id
            self._ready.set()
            await self._end.wait()


@pytest.fixture(params=[Aerobee, RocketMQ])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """Each server in turn, in a folder with the files that the page names."""
    monkeypatch.chdir(tmp_path)
    line = {"body": "hello", "tags": "new", "keys": ["order-1"]}
    (tmp_path / "message.jsonl").write_text(json.dumps(line) + "\n")
    topic = {"topicName": "listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    (tmp_path / "topics.json").write_text(json.dumps([topic]))
    with request.param(tmp_path / "server", settings=SETTINGS) as running:
        yield running
        running.stop()


class Day:
    """What the words of the page stand for, on one cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.commands = Commands(cluster.namesrv, {"ANN_PASSWORD": "secret"})
        self.members: Members | None = None

    def begin_members(self) -> None:
        """Have somebody to look at, once there is a topic."""
        self.commands("group", "create", "billing", "--retries", "0")
        self.members = Members(self.cluster.namesrv).__enter__()

    def end_members(self) -> None:
        """Let them go, so that groups can be changed by all tools."""
        if self.members is not None:
            self.members.__exit__()
            self.members = None

    def words(self, command: str) -> list[str]:
        """Return a command with what the page's names stand for."""
        given = {
            "127.0.0.1:10911": self.cluster.broker,
            "topics.json": str(self.folder / "topics.json"),
        }
        words = shlex.split(command)
        if "CLIENT" in words:
            assert self.members is not None
            given["CLIENT"] = self.members.client_id
        if {"ID", "OFFSET_ID"} & set(words):
            message = asyncio.run(self._sent())
            given |= {"ID": message.message_id, "OFFSET_ID": message.offset_message_id}
        return [given.get(word, word) for word in words[1:]]

    async def _sent(self) -> ReceivedMessage:
        async with AdminClient(self.cluster.namesrv) as admin:
            return (await admin.message.find("orders", key="order-1")).messages[0]


def test_the_page_has_forty_tasks() -> None:
    """In their order, each with a command of both."""
    found = tasks()
    assert [task.number for task in found] == list(range(1, TASKS + 1))
    for task in found:
        assert all(command.startswith("aerobee ") for command in task.aerobee) and task.aerobee
        assert all(command.startswith("mqadmin ") for command in task.mqadmin) and task.mqadmin


def test_a_day_with_aerobee(cluster: Cluster, tmp_path: Path) -> None:
    """Each command ends with 0."""
    day = Day(cluster, tmp_path)
    try:
        for task in tasks():
            if task.number == 13:
                day.begin_members()
            if task.number == 25:
                day.end_members()
            for command in task.aerobee:
                day.commands(*day.words(command))
    finally:
        day.end_members()


def test_a_day_with_mqadmin(cluster: Cluster, tmp_path: Path) -> None:
    """None prints an exception, or that it failed."""
    day = Day(cluster, tmp_path)
    (tmp_path / "home").mkdir()
    failed: dict[str, str] = {}
    with MqAdmin(tmp_path / "home") as mqadmin, MqAdmin(tmp_path / "home") as other:
        try:
            for task in tasks():
                if task.number == 13:
                    day.begin_members()
                if task.number == 25:
                    day.end_members()
                for command in task.mqadmin:
                    words = [*day.words(command), "-n", cluster.namesrv]
                    # its producer is one of the process, and sends once
                    tool = other if task.number == 31 else mqadmin
                    printed = tool.run(words, 60)
                    if not printed.ended or FAILED.search(printed.text):
                        failed[command] = printed.text[:600]
        finally:
            day.end_members()
    assert not failed, "\n".join(f"{command}\n{text}" for command, text in failed.items())
