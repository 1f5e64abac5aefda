"""Message traces: RocketMQ's tools read ours at RocketMQ's broker, and we read Java's at either."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import TRACES
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Message,
    MessageTraces,
    Producer,
    PushConsumer,
    read_traces,
)
from aerobee.client.traces import records

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

TRACED = ClientSettings(enable_trace=True)


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A nameserver and one broker that has the trace topic from its start."""
    kind: type[Cluster] = request.param
    settings = {"traceTopicEnable": "true"}
    with kind(tmp_path_factory.mktemp("traces"), settings=settings) as cluster:
        yield cluster


def new_topic(cluster: Cluster) -> str:
    """Make a topic that no other test uses."""
    topic = f"traced-{uuid.uuid4().hex[:12]}"
    create_topic(cluster.broker, topic, 1)
    wait_for_route(cluster.namesrv, topic)
    return topic


def run(words: list[str], folder: Path) -> str:
    """Run the Java program and return what it prints."""
    child = TRACES.start(words, folder / "log")
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0, output + (folder / "log").read_text()
    return output


async def send_and_consume(cluster: Cluster, topic: str) -> str:
    """Send one message and consume it, both with traces; return its id."""
    got: list[bytes] = []
    consumer = PushConsumer(
        f"{topic}-g", namesrv=cluster.namesrv, client=TRACED, consume_from=ConsumeFrom.FIRST
    )
    consumer.subscribe(topic, lambda message: got.append(message.body))
    async with Producer(f"{topic}-p", namesrv=cluster.namesrv, client=TRACED) as producer:
        result = await producer.send(Message(topic, b"hello", tags="TagA", keys="key-1"))
        async with consumer:
            await until(lambda: got, 60, what="the message to be handled")
    return result.message_id


async def test_mqadmin_reads_ours(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`queryMsgTraceById` finds them by RocketMQ's own index, and prints what we have said."""
    folder = tmp_path_factory.mktemp("mqadmin")
    with RocketMQ(folder / "server", settings={"traceTopicEnable": "true"}) as cluster:
        topic = new_topic(cluster)
        message_id = await send_and_consume(cluster, topic)
        output = ""
        for _ in range(20):  # the index is built beside
            output = await asyncio.to_thread(run, ["query", cluster.namesrv, message_id], folder)
            if f"{topic}-g" in output and f"{topic}-p" in output:
                break
            await asyncio.sleep(0.5)
        lines = [line.split() for line in output.splitlines() if line.startswith(("Pub", "Sub"))]
        (pub,) = (line for line in lines if line[0] == "Pub")
        assert pub[1] == f"{topic}-p" and "success" in pub
        assert any(line[0] == "Sub" for line in lines) or f"Sub {topic}" in output, output


async def test_we_read_those_of_java(cluster: Cluster, tmp_path: Path) -> None:
    """Of a message that Java's client has sent and consumed."""
    topic = new_topic(cluster)
    printed = await asyncio.to_thread(run, ["send", cluster.namesrv, topic, f"{topic}-g"], tmp_path)
    said = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert said["consumed"]
    found = await read_traces(cluster.namesrv, said["id"])
    (pub,) = found.sent
    assert (pub.topic, pub.tags, pub.keys, pub.body_bytes) == (topic, "TagA", "key-1", 5)
    assert pub.store_host == cluster.broker and pub.message_type == records.NORMAL
    assert pub.succeeded and pub.region == "DefaultRegion" and pub.group == f"{topic}-g-p"
    (handled,) = found.handled
    assert handled.before is not None and handled.after is not None
    assert handled.before.group == f"{topic}-g" and handled.before.keys == "key-1"
    assert handled.after.succeeded and handled.after.outcome == records.SUCCESS


async def test_ours_are_as_java_writes_them(cluster: Cluster, tmp_path: Path) -> None:
    """Field by field, but for times, ids and names."""
    ours_topic, java_topic = new_topic(cluster), new_topic(cluster)
    ours_id = await send_and_consume(cluster, ours_topic)
    words = ["send", cluster.namesrv, java_topic, f"{java_topic}-g"]
    printed = await asyncio.to_thread(run, words, tmp_path)
    said = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    ours = await read_traces(cluster.namesrv, ours_id)
    java = await read_traces(cluster.namesrv, said["id"])

    def shape(traces: MessageTraces, topic: str, message_id: str) -> list[list[str]]:
        handled = [each for call in traces.handled for each in (call.before, call.after)]
        texts = [records.encode_trace(each) for each in (*traces.sent, *handled) if each]
        known = [text.replace(message_id, "ID").replace(topic, "T") for text in texts]
        return [["N" if part.isdigit() else part for part in text.split("\x01")] for text in known]

    left, right = shape(ours, ours_topic, ours_id), shape(java, java_topic, said["id"])
    for mine, theirs in zip(left, right, strict=True):
        assert len(mine) == len(theirs)
        different = [at for at, part in enumerate(mine) if part != theirs[at]]
        assert all(_differs(mine[at], theirs[at]) for at in different), (mine, theirs)


def _differs(mine: str, theirs: str) -> bool:
    """Whether two parts are ids or group names, which are never the same."""
    hexadecimal = set("0123456789ABCDEF")
    ids = min(len(mine), len(theirs)) >= 32 and set(mine) | set(theirs) <= hexadecimal
    return ids or {mine, theirs} == {"T-p", "T-g-p"}
