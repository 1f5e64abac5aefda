"""Batch queues (BatchCQ): what one broker has stored the other reads and goes on with; Java's
client and ours against our broker."""

import asyncio
import struct
import time
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import JAVA_5, OURS, Consumer, Content, Peer
from support.interop.raw_messages import (
    RawMessage,
    create_group,
    decode_records,
    offset_of,
    pull,
    send,
    wait_for_route,
)
from support.interop.raw_remoting import Answer, RawClient
from support.interop.rocketmq_server import RocketMQ
from support.interop.sessions import Session
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "together"
ROUNDS = 20  # a batch of three and a single message each


def create(client: RawClient) -> None:
    """Make the topic, of one queue."""
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+queue.type=BatchCQ",
    }  # fmt: skip
    answer = client.call(17, fields)
    assert answer.code == 0, answer


def send_batch(client: RawClient, key: str, *bodies: bytes) -> Answer:
    """Send a batch as clients from 5.0 on do."""
    pieces = []
    for number, body in enumerate(bodies):
        properties = f"UNIQ_KEY\x01{key}{number}\x02KEYS\x01within-{number}\x02".encode()
        head = struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, 0, len(body))
        pieces.append(head + body + struct.pack(">h", len(properties)) + properties)
    fields = {
        "a": "raw", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0",
        "g": str(time.time_ns() // 10**6), "h": "0", "i": f"UNIQ_KEY\x01{key}\x02", "j": "0",
        "k": "false", "m": "true",
    }  # fmt: skip
    return client.call(320, fields, b"".join(pieces))


def fill(client: RawClient, begin: int) -> int:
    """Send batches and single messages; return where the queue ends."""
    offset = begin
    for _ in range(ROUNDS):
        answer = send_batch(client, f"{offset:032X}", *[b"%d" % (offset + i) for i in range(3)])
        assert (answer.code, answer.ext["queueOffset"]) == (0, str(offset)), answer
        assert answer.ext["batchUniqId"] == f"{offset:032X}"
        offset += 3
        answer = send(client, TOPIC, 0, b"%d" % offset, {"UNIQ_KEY": f"{offset:032X}"})
        assert (answer.code, answer.ext["queueOffset"]) == (0, str(offset)), answer
        offset += 1
    return offset


def bodies(record: RawMessage) -> list[bytes]:
    """Take a record apart."""
    if "INNER_NUM" not in record.properties:
        return [record.body]
    found, at = [], 0
    while at < len(record.body):
        size, _, _, _, length = struct.unpack_from(">iiiii", record.body, at)
        found.append(record.body[at + 20 : at + 20 + length])
        at += size
    assert record.properties["INNER_NUM"] == str(len(found))
    assert record.properties["INNER_BASE"] == str(record.queue_offset)
    return found


def check(client: RawClient, end: int) -> None:
    """Every message is there at its offset; a pull begins with the record that holds it."""
    deadline = time.monotonic() + 60
    while offset_of(client, 30, TOPIC, 0) < end:  # RocketMQ dispatches a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (offset_of(client, 31, TOPIC, 0), offset_of(client, 30, TOPIC, 0)) == (0, end)
    offset, found = 0, list[bytes]()
    while offset < end:
        answer = pull(client, TOPIC, 0, offset)
        assert answer.code == 0, answer
        for record in decode_records(answer.body):
            assert record.queue_offset == len(found)
            found += bodies(record)
        offset = int(answer.ext["nextBeginOffset"])
    assert found == [b"%d" % number for number in range(end)]
    within = next(decode_records(pull(client, TOPIC, 0, 5).body))
    assert within.queue_offset == 4  # three, one, three: it holds 4 to 6


@pytest.mark.parametrize(
    "generations",
    [
        "rocketmq stopped, aerobee stopped, rocketmq stopped, aerobee stopped",
        "aerobee killed, aerobee stopped, rocketmq killed, aerobee stopped",
        "aerobee killed, rocketmq killed, aerobee stopped",
    ],
)
def test_batch_queues_change_hands(generations: str, tmp_path: Path) -> None:
    """Each broker has every message at its offset, and goes on behind them."""
    store = tmp_path / "store"
    end = 0
    for number, generation in enumerate(generations.split(", ")):
        kind, stop = generation.split()
        cluster = KINDS[kind](tmp_path / f"{number}-{kind}", store=store)
        with cluster:
            with RawClient(cluster.broker) as client:
                if number == 0:
                    create(client)
                    wait_for_route(cluster.namesrv, TOPIC)
                else:
                    check(client, end)
                end = fill(client, end)
                check(client, end)
            if stop == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()


async def test_clients_take_them_apart(tmp_path: Path) -> None:
    """Java's 5.x and our producer send batches; every consumer gets each message once."""
    with Aerobee(tmp_path) as cluster, RawClient(cluster.broker) as client:
        create(client)
        wait_for_route(cluster.namesrv, TOPIC)
        contents = [Content("TagA", f"k{n}", b"java %d" % n) for n in range(5)]
        (told,) = await asyncio.to_thread(
            JAVA_5.produce, cluster.namesrv, TOPIC, contents, batch=True
        )
        assert told["queueOffset"] == 0
        assert offset_of(client, 30, TOPIC, 0) == 5
        assert len(list(decode_records(pull(client, TOPIC, 0, 0).body))) == 1
        async with Producer("ours", namesrv=cluster.namesrv) as producer:
            await producer.send_many([Message(TOPIC, b"ours %d" % n) for n in range(3)])
        wanted = sorted([each.body for each in contents] + [b"ours %d" % n for n in range(3)])
        got: list[ReceivedMessage] = []

        async def handle(message: ReceivedMessage) -> None:
            got.append(message)

        ours = PushConsumer("b-ours", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
        ours.subscribe(TOPIC, handle)
        async with ours:
            await until(lambda: len(got) == len(wanted), 60)
        assert sorted(each.body for each in got) == wanted
        assert sorted(each.queue_offset for each in got) == list(range(len(wanted)))
        with Consumer(JAVA_5, cluster.namesrv, TOPIC, "b-java") as consumer:
            received = await asyncio.to_thread(consumer.wait_for, len(wanted))
        assert sorted(each.content.body for each in received) == wanted


@pytest.mark.parametrize("consumer", [JAVA_5, OURS], ids=str)
def test_a_message_that_fails_comes_again_alone(consumer: Peer, tmp_path: Path) -> None:
    """Of a batch one message goes the way of retries, to the dead letters; the others come once.

    The broker refuses the record's position (36), and clients send the message anew.
    """
    settings = {"messageDelayLevel": " ".join(["1s"] * 18)}
    with Aerobee(tmp_path, settings=settings) as cluster, RawClient(cluster.broker) as client:
        create(client)
        wait_for_route(cluster.namesrv, TOPIC)
        create_group(client, "again", 2)
        bodies = [b"one", b"fail=1 two", b"three", b"fail=9 four", b"five"]
        assert send_batch(client, "F" * 32, *bodies).code == 0
        with Session(consumer, cluster.namesrv) as session:
            member = session.open("push", "again", TOPIC, retries=2)
            came = member.wait_for(len(bodies) + 1 + 2, seconds=90, settle_s=2.0)
        assert sorted(each.content.body for each in came) == sorted(
            [*bodies, b"fail=1 two", b"fail=9 four", b"fail=9 four"]
        )
        dead = f"%DLQ%{member.group}"
        deadline = time.monotonic() + 60
        while offset_of(client, 30, dead, 0) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (buried,) = decode_records(pull(client, dead, 0, 0).body)
        assert buried.body == b"fail=9 four"


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_found_by_its_own_key_alone(kind: str, tmp_path: Path) -> None:
    """The index has what the record says; keys within the batch are in none of both brokers'."""
    with KINDS[kind](tmp_path) as cluster, RawClient(cluster.broker) as client:
        create(client)
        wait_for_route(cluster.namesrv, TOPIC)
        assert send_batch(client, "B" * 32, b"0", b"1").code == 0
        assert send(client, TOPIC, 0, b"2", {"UNIQ_KEY": "C" * 32, "KEYS": "later"}).code == 0
        deadline = time.monotonic() + 60
        while not (later := find(client, "later")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert [record.queue_offset for record in later] == [2]
        (found,) = find(client, "B" * 32)
        assert (found.queue_offset, bodies(found)) == (0, [b"0", b"1"])
        for within in ("within-0", "within-1", "B" * 32 + "0", "B" * 32 + "1"):
            assert find(client, within) == []


def find(client: RawClient, key: str) -> list[RawMessage]:
    """Ask for messages by key."""
    fields = {"topic": TOPIC, "key": key, "maxNum": "64", "beginTimestamp": "0",
              "endTimestamp": str((1 << 63) - 1), "indexType": "K"}  # fmt: skip
    answer = client.call(12, fields)
    return list(decode_records(answer.body)) if answer.code == 0 else []
