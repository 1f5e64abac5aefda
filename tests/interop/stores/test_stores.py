"""A store that one broker leaves behind, stopped or killed, is opened and read by the other."""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.ledger import Ledger
from support.interop.peers import JAVA_5, Consumer
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

SEGMENT_BYTES = 1024 * 1024
MESSAGES = 1500  # about 2 MB: three segments a generation
GROUP = "store-group"
KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}


@pytest.mark.parametrize(
    "generations",
    [
        "rocketmq stopped, aerobee stopped",
        "rocketmq killed, aerobee stopped",
        "aerobee stopped, rocketmq killed",
        "aerobee killed, rocketmq killed",
        "rocketmq killed, aerobee killed, rocketmq stopped, aerobee stopped",
    ],
)
def test_next_broker_reads_to_the_last_message(generations: str, tmp_path: Path) -> None:
    """Each broker in turn reads all that the ones before it wrote, then writes more itself."""
    ledger = Ledger({"store-a": 4, "store-b": 1, "store-c": 2}, seed=20261121)
    store = tmp_path / "store"
    for number, generation in enumerate(generations.split(", ")):
        kind, end = generation.split()
        settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
        cluster = KINDS[kind](tmp_path / f"{number}-{kind}", store=store, settings=settings)
        with cluster:
            if number == 0:
                ledger.create(cluster)
            ledger.check(cluster)
            ledger.write(cluster, MESSAGES)
            ledger.check(cluster)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()
                assert not (store / "abort").exists()
        if (kind, end) == ("aerobee", "stopped"):
            verify(store)


def test_rocketmq_recovers_our_killed_store_by_its_checkpoint(tmp_path: Path) -> None:
    """It does not even start so where `checkpoint` lacks the position up to which queues are."""
    ledger = Ledger({"store-a": 4}, seed=20261122)
    store = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with Aerobee(tmp_path / "aerobee", store=store, settings=settings) as cluster:
        ledger.create(cluster)
        ledger.write(cluster, MESSAGES)
        deadline = time.monotonic() + 60
        while not queues_are_noted(store):
            assert time.monotonic() < deadline, "no checkpoint is written"
            time.sleep(0.1)
        cluster.kill_broker()
    settings["enableAcceleratedRecovery"] = "true"
    with RocketMQ(tmp_path / "rocketmq", store=store, settings=settings) as cluster:
        ledger.check(cluster)


@pytest.mark.parametrize("accelerated", ["false", "true"])
def test_rocketmq_dispatches_what_a_killed_broker_had_in_memory(
    accelerated: str, tmp_path: Path
) -> None:
    """Files lack the newest entries of each queue, more of some than of others: rounds are far off.

    It begins where the last checkpoint says, and writes all that follow; and so do we after it.
    """
    ledger = Ledger({"store-a": 4, "store-b": 1, "store-c": 2}, seed=20261125)
    store = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with Aerobee(tmp_path / "first", store=store, settings=settings) as cluster:
        ledger.create(cluster)
        ledger.write(cluster, MESSAGES)
        cluster.stop_broker()
    lazy = {**settings, "flushIntervalConsumeQueue": "600000"}
    with Aerobee(tmp_path / "second", store=store, settings=lazy) as cluster:
        ledger.write(cluster, 1)
        deadline = time.monotonic() + 60
        while entries_in_files(store) <= MESSAGES:
            assert time.monotonic() < deadline, "there is no first round"
            time.sleep(0.1)
        ledger.write(cluster, MESSAGES)
        written = entries_in_files(store)
        cluster.kill_broker()
    assert MESSAGES < written == entries_in_files(store) <= 2 * MESSAGES, "memory had the rest"
    settings["enableAcceleratedRecovery"] = accelerated
    with RocketMQ(tmp_path / "rocketmq", store=store, settings=settings) as cluster:
        ledger.check(cluster)
        ledger.write(cluster, MESSAGES)
        cluster.kill_broker()
    with Aerobee(tmp_path / "third", store=store, settings=settings) as cluster:
        ledger.check(cluster)


def entries_in_files(store: Path) -> int:
    """Count the entries of the ledger's topics that the files have."""
    return sum(
        size > 0
        for path in store.glob("consumequeue/store-*/*/*")
        for _, size, _ in struct.iter_unpack(">qiq", path.read_bytes())
    )


def queues_are_noted(store: Path) -> bool:
    """Whether the checkpoint says up to where queues are on the disk."""
    path = store / "checkpoint"
    return path.exists() and path.read_bytes()[40:48] > bytes(8)


def verify(store: Path) -> None:
    """Let our own verifier look at the store that our broker closed."""
    command = [sys.executable, "-m", "aerobee.storage.verify", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("first", ["rocketmq", "aerobee"])
def test_consumers_go_on_where_they_were(first: str, tmp_path: Path) -> None:
    """Topics, their queues and committed offsets come along; a Java consumer sees the rest only."""
    second = "aerobee" if first == "rocketmq" else "rocketmq"
    ledger = Ledger({"move": 3}, seed=4)
    store = tmp_path / "store"
    with KINDS[first](tmp_path / first, store=store) as cluster:
        ledger.create(cluster)
        ledger.write(cluster, 60)
        with Consumer(JAVA_5, cluster.namesrv, "move", GROUP) as consumer:
            consumer.wait_for(60)
        commit_all(cluster, ledger)
        ledger.write(cluster, 40)
        cluster.stop_broker()

    with KINDS[second](tmp_path / second, store=store) as cluster:
        with RawClient(cluster.namesrv) as client:
            route = json.loads(client.call(105, {"topic": "move"}).body)
        assert route["queueDatas"][0]["readQueueNums"] == 3
        with Consumer(JAVA_5, cluster.namesrv, "move", GROUP) as consumer:
            received = consumer.wait_for(40)
    expected = [body for bodies in ledger.written.values() for body, _, _ in bodies]
    assert len(received) == 40
    assert {message.content.body for message in received} <= set(expected)
    ends = {queue: len(bodies) for (_, queue), bodies in ledger.written.items()}
    assert {
        m.queue_id: m.queue_offset + 1 for m in sorted(received, key=lambda m: m.queue_offset)
    } == (ends)


def commit_all(cluster: Cluster, ledger: Ledger) -> None:
    """Commit what was written so far and wait until the broker answers so."""
    with RawClient(cluster.broker) as client:
        for (topic, queue), bodies in ledger.written.items():
            fields = {"consumerGroup": GROUP, "topic": topic, "queueId": str(queue)}
            committed = str(len(bodies))
            assert client.call(15, fields | {"commitOffset": committed}).code == 0
            deadline = time.monotonic() + 60
            while client.call(14, fields).ext.get("offset") != committed:
                assert time.monotonic() < deadline, "the committed offset is not answered"
