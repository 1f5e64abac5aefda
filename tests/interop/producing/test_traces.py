"""Message traces at either broker: RocketMQ's tools read ours, and we read those of Java."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import TRACES
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import RocketMQ
from support.stand_ins.transacting import Answers
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Message,
    MessageTraces,
    PushConsumer,
    TransactionProducer,
    read_traces,
)
from aerobee.client.traces import records

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

TRACED = ClientSettings(enable_trace=True)
OWN = {
    "Pub": (1, 10),
    "SubBefore": (1,),
    "SubAfter": (3, 7),
    "EndTransaction": (1,),
    "Recall": (1,),
}
"""Which fields of a record say when it was, and how long that took."""
WHOLE: dict[str, Callable[[MessageTraces], object]] = {
    "id": lambda told: told.sent and told.handled and told.handled[0].after,
    "half": lambda told: told.sent and told.transactions,
    "later": lambda told: told.sent and told.recalls,
}
"""When all that was done with a message is told."""


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A nameserver and one broker that has the trace topic from its start."""
    kind: type[Cluster] = request.param
    settings = {"traceTopicEnable": "true", "recallMessageEnable": "true"}
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


async def send_and_consume(cluster: Cluster, topic: str) -> dict[str, str]:
    """Send one message and consume it, commit another, recall a third one; return their ids."""
    got: list[bytes] = []
    consumer = PushConsumer(
        f"{topic}-g", namesrv=cluster.namesrv, client=TRACED, consume_from=ConsumeFrom.FIRST
    )
    consumer.subscribe(topic, lambda message: got.append(message.body))
    async with TransactionProducer(
        f"{topic}-p", namesrv=cluster.namesrv, client=TRACED, listener=Answers()
    ) as producer:
        result = await producer.send(Message(topic, b"hello", tags="TagA", keys="key-1"))
        async with producer.transaction(Message(topic, b"paid", "TagA", "key-2")) as half:
            pass
        message = Message(topic, b"later", "TagA", "key-3")
        later = await producer.send(message, delay=timedelta(minutes=1))
        await producer.recall(later)
        async with consumer:
            await until(lambda: got, 60, what="the message to be handled")
    return {"id": result.message_id, "half": half.message_id, "later": later.message_id}


async def read_whole(
    cluster: Cluster, message_id: str, whole: Callable[[MessageTraces], object]
) -> MessageTraces:
    """Read until all is there: RocketMQ answers a send a moment before it tells readers."""
    deadline = time.monotonic() + 60
    while True:
        found = await read_traces(cluster.namesrv, message_id)
        if whole(found) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.1)


async def test_mqadmin_reads_ours(cluster: Cluster, tmp_path: Path) -> None:
    """`queryMsgTraceById` finds them by the broker's index, and prints what we have said."""
    topic = new_topic(cluster)
    message_id = (await send_and_consume(cluster, topic))["id"]
    output = ""
    for _ in range(20):  # RocketMQ's index is built beside
        output = await asyncio.to_thread(run, ["query", cluster.namesrv, message_id], tmp_path)
        if f"{topic}-g" in output and f"{topic}-p" in output:
            break
        await asyncio.sleep(0.5)
    lines = [line.split() for line in output.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("Pub", f"{topic}-p", "success"), ("Sub", f"{topic}-g", "success")
    ], output  # fmt: skip


async def test_we_read_those_of_java(cluster: Cluster, tmp_path: Path) -> None:
    """Of a message that Java's client has sent and consumed."""
    topic = new_topic(cluster)
    printed = await asyncio.to_thread(run, ["send", cluster.namesrv, topic, f"{topic}-g"], tmp_path)
    said = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert said["consumed"]
    found = await read_whole(cluster, said["id"], WHOLE["id"])
    (pub,) = found.sent
    assert (pub.topic, pub.tags, pub.keys, pub.body_bytes) == (topic, "TagA", "key-1", 5)
    assert pub.store_host == cluster.broker and pub.message_type == records.NORMAL
    assert pub.succeeded and pub.region == "DefaultRegion" and pub.group == f"{topic}-g-p"
    (handled,) = found.handled
    assert handled.before is not None and handled.after is not None
    assert handled.before.group == f"{topic}-g" and handled.before.keys == "key-1"
    assert handled.after.succeeded and handled.after.outcome == records.SUCCESS


async def test_ours_are_as_java_writes_them(cluster: Cluster, tmp_path: Path) -> None:
    """Of each kind, field by field, but for times, ids and names."""
    ours_topic, java_topic = new_topic(cluster), new_topic(cluster)
    ours_ids = await send_and_consume(cluster, ours_topic)
    words = ["send", cluster.namesrv, java_topic, f"{java_topic}-g"]
    printed = await asyncio.to_thread(run, words, tmp_path)
    java_ids = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    ours = await records_of(cluster, ours_topic, ours_ids)
    java = await records_of(cluster, java_topic, java_ids)
    kinds = ["Pub", "SubBefore", "SubAfter", "Pub", "EndTransaction", "Pub", "Recall"]
    assert [each[0] for each in ours] == [each[0] for each in java] == kinds
    for mine, theirs in zip(ours, java, strict=True):
        assert len(mine) == len(theirs)
        different = [at for at, part in enumerate(mine) if part != theirs[at]]
        assert all(_differs(mine[at], theirs[at]) for at in different), (mine, theirs)


async def records_of(cluster: Cluster, topic: str, ids: dict[str, str]) -> list[list[str]]:
    """Return the fields of all records of the three messages, without times, ids and names."""
    found: list[records.Trace | None] = []
    for name in ("id", "half", "later"):
        told = await read_whole(cluster, ids[name], WHOLE[name])
        found += told.sent
        if name == "id":
            found += [each for call in told.handled for each in (call.before, call.after)]
        found += (*told.transactions, *told.recalls)
    texts = [records.encode_trace(each) for each in found if each is not None]
    for name in ("id", "half", "later"):
        texts = [text.replace(ids[name], "ID").replace(topic, "T") for text in texts]
    split = [text.split("\x01") for text in texts]
    return [["N" if at in OWN[each[0]] else each[at] for at in range(len(each))] for each in split]


def _differs(mine: str, theirs: str) -> bool:
    """Whether two parts are ids or group names, which are never the same."""
    hexadecimal = set("0123456789ABCDEF")
    ids = min(len(mine), len(theirs)) >= 32 and set(mine) | set(theirs) <= hexadecimal
    return ids or {mine, theirs} == {"T-p", "T-g-p"}
