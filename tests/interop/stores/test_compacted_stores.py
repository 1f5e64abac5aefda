"""Compaction topics: what one broker has copied and compacted the other reads and goes on with."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import GO, JAVA_4, JAVA_5, Consumer
from support.interop.raw_messages import decode_records, pull, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until

from aerobee.client import ConsumeFrom, PushConsumer, ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "latest"
SETTINGS = {
    "compactionMappedFileSize": "23000",  # five files of units: 115 records at most
    "compactionCqMappedFileSize": "4600",
    "compactionScheduleInternal": "1000",
}
KEYS = 10
COUNT = 400


def create(client: RawClient) -> None:
    """Make the topic."""
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+cleanup.policy=COMPACTION",
    }  # fmt: skip
    answer = client.call(17, fields)
    assert answer.code == 0, answer


def write(client: RawClient, generation: int, ledger: dict[str, tuple[int, bytes]]) -> int:
    """Send COUNT values, of the same keys in every generation but one; return the queue's end."""
    for number in range(COUNT):
        key = f"only-{generation}" if number == 0 else f"key-{number % KEYS}"
        body = b"%d.%d" % (generation, number)
        pairs = {"UNIQ_KEY": body.hex().upper(), "TAGS": "TagA", "KEYS": key}
        answer = send(client, TOPIC, 0, body, pairs)
        assert answer.code == 0, answer
        ledger[key] = int(answer.ext["queueOffset"]), body
    return max(offset for offset, _ in ledger.values()) + 1


def read(client: RawClient, end: int) -> list[tuple[str, int, bytes]]:
    """Read from 0 to the end, through whatever gaps there are."""
    found: list[tuple[str, int, bytes]] = []
    offset, deadline = 0, time.monotonic() + 60
    while offset < end and time.monotonic() < deadline:
        answer = pull(client, TOPIC, 0, offset)
        assert answer.code in (0, 19, 20, 21), f"{answer.code} {answer.remark} at {offset}"
        found += [
            (message.properties["KEYS"], message.queue_offset, message.body)
            for message in decode_records(answer.body)
        ]
        following = int(answer.ext["nextBeginOffset"])
        if following <= offset:
            time.sleep(0.1)  # RocketMQ's copy comes behind its log
        offset = max(offset, following)
    assert offset == end
    return found


def check(found: list[tuple[str, int, bytes]], ledger: dict[str, tuple[int, bytes]]) -> None:
    """See the latest of each key, in order and each offset once."""
    offsets = [offset for _, offset, _ in found]
    assert offsets == sorted(set(offsets))
    assert {key: (offset, body) for key, offset, body in found} == ledger


def wait_compacted(client: RawClient, end: int) -> int:
    """Return how many messages are left once a round has taken place."""
    deadline = time.monotonic() + 60
    while len(found := read(client, end)) > end // 2:
        assert time.monotonic() < deadline, "no round takes place"
        time.sleep(0.5)
    return len(found)


@pytest.mark.parametrize(
    "generations",
    [
        ("rocketmq stopped", "aerobee stopped", "rocketmq stopped"),
        ("aerobee killed", "rocketmq killed", "aerobee stopped"),
    ],
    ids=lambda generations: " - ".join(generations),
)
def test_copies_change_hands(generations: tuple[str, ...], tmp_path: Path) -> None:
    """Each broker reads the latest of every key, whoever stored, copied and compacted it."""
    store = tmp_path / "store"
    ledger: dict[str, tuple[int, bytes]] = {}
    end = 0
    for number, generation in enumerate(generations):
        kind, stop = generation.split()
        with (
            KINDS[kind](tmp_path / f"{number}-{kind}", store=store, settings=SETTINGS) as cluster,
            RawClient(cluster.broker) as client,
        ):
            if number == 0:
                create(client)
                wait_for_route(cluster.namesrv, TOPIC)
            else:
                check(read(client, end), ledger)
            end = write(client, number, ledger)
            check(read(client, end), ledger)
            wait_compacted(client, end)
            check(read(client, end), ledger)
            if stop == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()


@pytest.mark.parametrize("kind", ["rocketmq", "aerobee"])
def test_what_a_send_needs(kind: str, tmp_path: Path) -> None:
    """A key, and a body: both brokers say so."""
    with (
        KINDS[kind](tmp_path, settings=SETTINGS) as cluster,
        RawClient(cluster.broker) as client,
    ):
        create(client)
        wait_for_route(cluster.namesrv, TOPIC)
        answer = send(client, TOPIC, 0, b"body", {"UNIQ_KEY": "AA"})
        assert (answer.code, answer.remark) == (13, "Required message key is missing")
        answer = send(client, TOPIC, 0, b"", {"UNIQ_KEY": "AB", "KEYS": "k"})
        if kind == "rocketmq":  # which has the rule that an empty body removes its key
            assert answer.code == 1 and "NullPointerException" in (answer.remark or "")
        else:
            assert answer.code == 0


async def test_every_client_reads_through_gaps(tmp_path: Path) -> None:
    """New groups of each kind get what is left, from the first on, each message once."""
    ledger: dict[str, tuple[int, bytes]] = {}
    with (
        Aerobee(tmp_path, settings=SETTINGS) as cluster,
        RawClient(cluster.broker) as client,
        ExitStack() as stack,
    ):
        create(client)
        wait_for_route(cluster.namesrv, TOPIC)
        end = write(client, 0, ledger)
        wait_compacted(client, end)
        left = [body for _, _, body in read(client, end)]
        consumers = [
            stack.enter_context(Consumer(peer, cluster.namesrv, TOPIC, f"latest-{number}"))
            for number, peer in enumerate((JAVA_5, JAVA_4, GO))
        ]
        got: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)

        ours = PushConsumer("latest-ours", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
        ours.subscribe(TOPIC, handle)
        async with ours:
            await until(lambda: len(got) == len(left), 60)
        assert sorted(got) == sorted(left)
        for consumer in consumers:
            received = await asyncio.to_thread(consumer.wait_for, len(left))
            assert sorted(each.content.body for each in received) == sorted(left), consumer.peer
