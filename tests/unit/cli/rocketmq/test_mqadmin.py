"""mqadmin for scripts: RocketMQ's letters and lines over a cluster, and honest exit codes."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.features.static_topics import StaticCluster, static_cluster
from support.waiting import until

from aerobee.cli.rocketmq.mqadmin import COMMANDS, mqadmin
from aerobee.client import ConsumeFrom, PushConsumer
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command

Run = Callable[..., Coroutine[Any, Any, str]]


def runner(cluster: StaticCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command against a cluster and returns what it prints."""

    async def run(*words: str, code: int = 0) -> str:
        ended = await asyncio.to_thread(mqadmin, [*words, "-n", cluster.namesrv])
        printed = capsys.readouterr()
        assert ended == code, printed
        return printed.out if code == 0 else printed.err

    return run


async def test_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made, listed, looked at, closed, deleted."""
    async with static_cluster(tmp_path) as cluster:
        run = runner(cluster, capsys)
        a, b = (cluster.brokers[name].address for name in "ab")
        queues = ("-r", "2", "-w", "2", "-a", "+message.type=FIFO")
        made = await run("updateTopic", "-t", "orders", "-c", "DefaultCluster", *queues)
        assert made.splitlines()[:2] == [f"create topic to {each} success." for each in (a, b)]
        assert made.splitlines()[2] == (
            "TopicConfig [topicName=orders, readQueueNums=2, writeQueueNums=2, perm=RW-,"
            " topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false,"
            " attributes={+message.type=FIFO}]"
        )
        config = cluster.brokers["a"].broker.context.tables.topics.get("orders")
        assert config is not None and config.attributes == {"message.type": "FIFO"}
        assert "orders" in (await run("topicList")).splitlines()
        route = json.loads(await run("topicRoute", "-t", "orders"))
        assert {each["brokerName"] for each in route["queueDatas"]} == {"a", "b"}
        listed = (await run("topicRoute", "-l", "-t", "orders")).splitlines()
        assert listed[-1].split() == ["Total:", "2", "4", "4"]
        sent = (await run("sendMessage", "-t", "orders", "-p", "hello", "-k", "k")).splitlines()
        assert sent[1].split()[2] == "SEND_OK"
        status = (await run("topicStatus", "-t", "orders")).splitlines()
        assert sum(int(line.split()[3]) for line in status[1:5]) == 1
        assert await run("topicClusterList", "-t", "orders") == "DefaultCluster\n"
        closed = await run("updateTopicPerm", "-t", "orders", "-p", "4", "-b", a)
        assert closed.startswith(f"update topic perm from 6 to 4 in {a} success.\nTopicConfig [")
        again = await run("updateTopicPerm", "-t", "orders", "-p", "4", "-b", a)
        assert again == "new perm equals to the old one!\n"
        await run("deleteTopic", "-t", "orders", "-c", "DefaultCluster")
        missing = await run("topicRoute", "-t", "orders", code=1)
        assert missing == "error: No topic route info in name server for the topic: orders\n"


async def test_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made, followed while a consumer is there, deleted."""
    async with static_cluster(tmp_path) as cluster:
        run = runner(cluster, capsys)
        a = cluster.brokers["a"].address
        await run("updateTopic", "-t", "t", "-b", a, "-r", "1", "-w", "1")
        made = await run(
            "updateSubGroup", "-g", "g", "-c", "DefaultCluster", "-r", "3", "-d", "true"
        )
        assert made.startswith(f"create subscription group to {a} success.\n")
        config = cluster.brokers["a"].broker.context.tables.groups.find("g")
        assert config is not None
        assert (config.retry_max_times, config.consume_broadcast_enable) == (3, True)
        await run("sendMessage", "-t", "t", "-p", "x")
        seen: list[bytes] = []
        consumer = PushConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)

        async def handle(message: Any) -> None:
            seen.append(message.body)

        consumer.subscribe("t", handle)
        async with consumer:
            await until(lambda: seen, what="the message")
            online = await run("consumerConnection", "-g", "g")
            assert online.splitlines()[1].split()[0] == consumer.client_id
            assert "ConsumeType: CONSUME_PASSIVELY" in online
        progress = (await run("consumerProgress", "-g", "g", "-t", "t")).splitlines()
        assert progress[1].split()[:6] == ["t", "a", "0", "1", "1", "0"]
        assert "Consume Diff Total: 0" in progress
        gone = await run("deleteSubGroup", "-g", "g", "-c", "DefaultCluster", "-r", "true")
        assert f"from broker [{a}] in cluster [DefaultCluster] success." in gone
        assert cluster.brokers["a"].broker.context.tables.offsets.committed("g", "t", 0) is None


async def test_brokers_and_nameservers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Listed, asked, set, closed to writers; values of nameservers."""
    async with static_cluster(tmp_path) as cluster:
        run = runner(cluster, capsys)
        a = cluster.brokers["a"].address
        rows = [line.split() for line in (await run("clusterList")).splitlines()[1:]]
        assert [row[:3] for row in rows] == [["DefaultCluster", name, "0"] for name in "ab"]
        assert "putTps" in await run("brokerStatus", "-b", a)
        config = await run("getBrokerConfig", "-b", a)
        assert config.startswith(f"============{a}============\n")
        words = ("updateBrokerConfig", "-b", a, "-k", "fileReservedTime", "-v", "24")
        assert await run(*words) == f"update broker config success, {a}\n"
        assert cluster.brokers["a"].broker.settings.file_reserved_time == 24
        wiped = await run("wipeWritePerm", "-b", "a")
        assert wiped.startswith("wipe write perm of broker[a] in name server[127.0.0.1:")
        assert (await run("addWritePerm", "-b", "a")).startswith("add write perm of broker[a] in")
        await run("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
        named = {"namespace": "space", "key": "key"}
        namesrv, pool = cluster.namesrv, cluster.brokers["a"].pool
        reply = await pool.call(namesrv, Command(RequestCode.GET_KV_CONFIG, named), 5)
        assert reply.ext == {"value": "value"}
        await run("deleteKvConfig", "-s", "space", "-k", "key")
        assert (await pool.call(namesrv, Command(RequestCode.GET_KV_CONFIG, named), 5)).code
        assert "listenPort" in await run("getNamesrvConfig")


def test_what_is_not_done_here_is_left_to_rocketmq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own tool takes this process's place, with the same words; without it: code 2."""
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    assert mqadmin(["statsAll", "-n", "x:1"]) == 2
    assert "set ROCKETMQ_HOME" in capsys.readouterr().err
    script = tmp_path / "bin" / "mqadmin"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho theirs\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    ran: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda file, words: ran.append([file, *words]))
    mqadmin(["statsAll", "-n", "x:1"])
    assert ran == [["sh", "sh", str(script), "statsAll", "-n", "x:1"]]
    script.write_text("#!/bin/sh\nexec python -m aerobee.cli.rocketmq mqadmin\n")
    assert mqadmin(["statsAll"]) == 2  # it is this one: it would go round for ever


def test_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2 for what cannot be meant, 1 where nobody answers."""
    for words in (["updateTopic", "-t", "t"], ["topicRoute"], ["topicStatus", "-t", "t", "-zz"]):
        with pytest.raises(SystemExit) as ended:
            mqadmin(words)
        assert ended.value.code == 2
    capsys.readouterr()
    assert mqadmin(["topiclist", "-n", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert mqadmin([]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
