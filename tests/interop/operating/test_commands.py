"""The same commands of `aerobee` against RocketMQ's own servers and against ours."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.each_server import running
from support.interop.rocketmq_server import RocketMQ
from support.servers.commands import Commands

from aerobee.admin import AdminClient
from aerobee.client import ConsumeFrom, PushConsumer, ReceivedMessage
from aerobee.client.settings import PushSettings

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(180)]

SETTINGS = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 1s 1s 1s"}
TOPIC, GROUP = "commanded", "commanding"


@pytest.fixture(scope="module", params=[RocketMQ, Aerobee])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Each server in turn."""
    folder = tmp_path_factory.mktemp(f"commands-{request.param.name}")
    with running(request.param, folder, SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    """Run commands over it."""
    return Commands(cluster.namesrv)


@pytest.fixture(scope="module")
def sent(cluster: Cluster) -> str:
    """Make a topic with twelve messages by commands."""
    commands = Commands(cluster.namesrv)
    commands("topic", "create", TOPIC, "-q", "3", "--type", "NORMAL")
    lines = [
        {"body": f"order {at}", "tags": f"t{at % 2}", "keys": [f"key-{at}"],
         "properties": {"amount": str(at)}}
        for at in range(12)
    ]  # fmt: skip
    commands("message", "produce", TOPIC, given="\n".join(map(json.dumps, lines)).encode())
    return TOPIC


def bodies(commands: Commands, *words: str) -> list[str]:
    """Return the bodies of what a command shows."""
    return [line["body"] for line in commands.lines("message", *words)]


async def consume(namesrv: str, group: str, topic: str, count: int, *, fails: bool = False) -> None:
    """Consume so many messages, or fail so many times, and leave."""
    done = asyncio.Event()
    seen = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            done.set()
        if fails:
            raise ValueError("cannot")

    consumer = PushConsumer(
        group,
        namesrv=namesrv,
        consume_from=ConsumeFrom.FIRST,
        settings=PushSettings(max_reconsume_times=0),
    )
    consumer.subscribe(topic, handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), 60)
        await asyncio.sleep(0)


def test_topics(sent: str, commands: Commands) -> None:
    """Listed, described, altered, made and deleted."""
    rows = commands.json("topic", "list", "--like", TOPIC)
    assert rows == [
        {"topic": TOPIC, "broker": "broker-a", "read_queues": 3, "write_queues": 3, "perm": "rw",
         "type": "NORMAL"}
    ]  # fmt: skip
    described = commands.json("topic", "describe", TOPIC)
    assert sum(row["messages"] for row in described) == 12
    commands("topic", "create", "short-lived", "-q", "2")
    commands("topic", "alter", "short-lived", "-q", "4", "--perm", "r")
    (row,) = commands.json("topic", "list", "--like", "short-lived")
    assert (row["read_queues"], row["perm"]) == (4, "r")
    commands("topic", "delete", "short-lived", "--yes")
    assert commands.json("topic", "list", "--like", "short-lived") == []
    refused = commands("topic", "describe", "short-lived", code=2)
    assert "no topic 'short-lived'" in refused.stderr
    commands("topic", "delete", "TBW102", "--yes", code=1)


def test_messages(sent: str, commands: Commands) -> None:
    """Browsed, filtered, found."""
    assert bodies(commands, "browse", TOPIC) == [f"order {at}" for at in range(12)]
    assert bodies(commands, "browse", TOPIC, "--tag", "t1", "--limit", "2") == [
        "order 1",
        "order 3",
    ]
    assert bodies(commands, "browse", TOPIC, "--sql", "amount > 9") == ["order 10", "order 11"]
    assert bodies(commands, "browse", TOPIC, "--newest", "--limit", "1") == ["order 11"]
    assert bodies(commands, "browse", TOPIC, "--since", "1h", "--key", "key-4") == ["order 4"]
    assert bodies(commands, "browse", TOPIC, "--since", "2100-01-01") == []
    (row,) = commands.lines("message", "find", TOPIC, "--key", "key-7")
    assert row["body"] == "order 7"
    assert commands.lines("message", "find", TOPIC, "--id", row["message_id"]) == [row]
    assert len(bodies(commands, "tail", TOPIC, "--since", "1h", "--limit", "12")) == 12


def test_groups_and_offsets(sent: str, commands: Commands) -> None:
    """Lag, preview and reset, with nobody connected."""
    asyncio.run(consume(commands.namesrv, GROUP, TOPIC, 12))
    words = ("offset", "reset", GROUP, TOPIC)
    commands(*words, "--to-end", "--yes")
    assert lag(commands) == 0
    plan = commands.json(*words, "--to-begin", "--dry-run")
    assert sum(row["again"] for row in plan) == 12 and lag(commands) == 0
    commands(*words, "--to-begin", "--yes")
    assert lag(commands) == 12
    assert bodies(commands, "peek", TOPIC, GROUP, "--limit", "2") == ["order 0", "order 1"]
    commands(*words, "--to-offset", "3", "--yes")
    assert lag(commands) == 3
    commands(*words, "--to-time", "1h", "--yes")
    assert lag(commands) == 12
    asyncio.run(consume(commands.namesrv, GROUP, TOPIC, 12))
    commands("group", "alter", GROUP, "--retries", "5", "--disabled")
    (row,) = commands.json("group", "list", "--like", GROUP)
    assert (row["group"], row["retries"], row["may_consume"]) == (GROUP, 5, False)
    commands("group", "delete", GROUP, "--yes")
    assert GROUP not in {row["group"] for row in commands.json("group", "list")}
    assert "no group" in commands("group", "describe", GROUP, code=2).stderr


def lag(commands: Commands) -> int:
    """Return the group's lag in the topic."""
    rows = commands.json("group", "describe", GROUP)
    return sum(row["lag"] for row in rows if row["topic"] == TOPIC)


def test_copies(sent: str, commands: Commands) -> None:
    """Made once, and gone on with."""
    commands("topic", "create", "commanded-copy", "-q", "3")
    words = ("message", "copy", TOPIC, "commanded-copy")
    assert commands(*words, "--limit", "5").stdout == "5 sent\n"
    assert commands(*words).stdout == "7 sent\n"
    assert commands(*words).stdout == "0 sent\n"
    assert len(bodies(commands, "browse", "commanded-copy")) == 12


def test_dead_letters(sent: str, commands: Commands) -> None:
    """Listed, shown, and given again to their group, which handles them."""
    asyncio.run(consume(commands.namesrv, "failing", TOPIC, 12, fails=True))
    rows = commands.json("dlq", "list")
    assert [(row["group"], row["messages"]) for row in rows] == [("failing", 12)]
    shown = commands.json("dlq", "show", "failing")
    assert {row["topic"] for row in shown} == {TOPIC} and len(shown) == 12
    assert "12 sent" in commands("dlq", "resend", "failing", "--yes").stdout
    asyncio.run(consume(commands.namesrv, "failing", TOPIC, 12))
    assert "0 sent" in commands("dlq", "resend", "failing", "--yes").stdout
    assert [row["messages"] for row in commands.json("dlq", "list")] == [12]


def test_brokers(cluster: Cluster, sent: str, commands: Commands) -> None:
    """Their state, settings and write permission."""
    (row,) = commands.json("broker", "list")
    assert (row["broker"], row["address"], row["in_today"] >= 12) == (
        "broker-a", cluster.broker, True,
    )  # fmt: skip
    assert "V5_5_0" in row["version"]
    changed = commands("broker", "set", "broker-a", "fileReservedTime=71")
    assert changed.stdout == "fileReservedTime: 72 -> 71\n"
    commands("broker", "set", "broker-a", "noSuchKey=1", code=2)
    commands("broker", "wipe-writes", "broker-a", "--yes")
    rows = commands.json("doctor", "--topic", TOPIC)
    assert any("may not write" in row["what"] for row in rows)
    commands("broker", "allow-writes", "broker-a")
    rows = commands.json("doctor", "--topic", TOPIC)
    assert {row["state"] for row in rows} == {"ok"}, rows


def test_draining(sent: str, commands: Commands) -> None:
    """A broker takes no more, and is done when the groups that are there have consumed."""

    async def drain() -> dict[str, str]:
        async with AdminClient(commands.namesrv) as admin:
            await admin.broker.drain("broker-a", timeout_s=30, settle_s=0, skip_absent=True)
            drained = await admin.broker.settings("broker-a")
            await admin.broker.set("broker-a", {"brokerPermission": "6"})
            return drained

    assert asyncio.run(drain())["brokerPermission"] == "4"


def test_configuration(sent: str, commands: Commands, tmp_path: Path) -> None:
    """Exported, changed, applied, and the same afterwards."""
    file = tmp_path / "cluster.json"
    commands("config", "export", "-f", str(file))
    assert commands.json("config", "diff", str(file)) == []
    wanted = json.loads(file.read_text())
    assert not wanted["groups"].keys() - {GROUP, "failing"}  # others are of brokers and tools
    wanted["topics"]["from-file"] = [
        {"brokers": ["*"], "config": {"readQueueNums": 3, "writeQueueNums": 3}}
    ]
    wanted["groups"]["group-from-file"] = [{"brokers": ["*"], "config": {"retryMaxTimes": 3}}]
    file.write_text(json.dumps(wanted))
    commands("config", "apply", str(file), "--yes")
    assert commands.json("config", "diff", str(file)) == []
    del wanted["topics"]["from-file"], wanted["groups"]["group-from-file"]
    file.write_text(json.dumps(wanted))
    commands("config", "apply", str(file), "--prune", "--yes")
    assert commands.json("config", "diff", str(file), "--prune") == []
