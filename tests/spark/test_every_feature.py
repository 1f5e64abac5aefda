"""One store that has used every feature, and every door that such a store goes through."""

import asyncio
import json
import logging
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from support.servers.live_broker import LiveBroker
from support.waiting import until

from aerobee.broker.features.compaction.feature import Compaction
from aerobee.broker.features.timers.feature import Timers
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.client import (
    Message,
    Producer,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.net.client import ConnectionPool
from aerobee.spark.exports.exporter import export
from aerobee.storage import dump, verify
from aerobee.testing.cluster import EmbeddedCluster

ON: Final = {
    "recall_message_enable": True,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "http_port": 0,
    "compaction_schedule_internal": 200,
    "mapped_file_size_timer_log": 1 << 16,
    "transaction_time_out": 3_600_000,
}
OFF: Final = {
    "transaction_enable": False,
    "timer_wheel_enable": False,
    "message_index_enable": False,
    "dedup_entries_max": 0,
    "enable_compaction": False,
    "topic_retention_enable": False,
    "enable_property_filter": False,
    "message_delay_level": "",
    "reply_pushes_max": 0,
    "http_port": 0,
}
SEEN: Final = {"plain": 6, "once": 1, "latest": 40}
"""What users see of it, topic by topic, when nothing is delivered any more."""
LEFT: Final = (1, 1)
"""What waits for its time then, for nobody has taken it back, and what for a decision."""

pytestmark = pytest.mark.spark


class Undecided(TransactionListener):
    """Leaves a transaction open."""

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Nobody knows."""
        return TransactionState.UNKNOWN


async def use_everything(cluster: EmbeddedCluster) -> None:
    """Send what leaves records and files of every feature behind."""
    namesrv = cluster.namesrv_addr
    async with Cluster(namesrv) as admin:
        await admin.create_topic("plain", 1)
        await admin.create_topic("once", 1, attributes={"aerobee.dedup.seconds": "600"})
        await admin.create_topic("latest", 1, attributes={"cleanup.policy": "COMPACTION"})
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(3):
            await producer.send(Message("plain", b"%d" % number, keys=f"k{number}", tags="t"))
        await producer.send(Message("plain", b"lmq", properties={"INNER_MULTI_DISPATCH": "%LMQ%q"}))
        await producer.send(Message("once", b"1"))
        for number in range(40):
            await producer.send(Message("latest", b"%d" % number, keys=f"k{number % 4}"))
        await producer.send(Message("plain", b"level", delay_level=18))
        await producer.send(Message("plain", b"in an hour"), delay=timedelta(hours=1))
        taken = await producer.send(Message("plain", b"taken back"), delay=timedelta(minutes=30))
        await producer.recall(taken)
        await producer.send(Message("plain", b"soon"), delay=timedelta(milliseconds=50))
    async with TransactionProducer("x", namesrv=namesrv, listener=Undecided()) as producer:
        async with producer.transaction(Message("plain", b"committed")):
            pass
        for body, state in ((b"no", TransactionState.ROLLBACK), (b"?", TransactionState.UNKNOWN)):
            async with producer.transaction(Message("plain", body)) as half:
                half.decide(state)
    broker = cluster.brokers[0]
    queue = broker.store.find_queue("plain", 0)
    assert queue is not None
    await until(lambda: queue.max_offset == SEEN["plain"], what="what is due and committed")
    await until(lambda: behind(cluster) == 0, what="all that waits has its slot")
    copies = broker.settings.store_path_root_dir / "compaction"
    await until(lambda: any(copies.glob("**/*")), what="a copy of the topic that is compacted")


def behind(cluster: EmbeddedCluster) -> int:
    """Return how many messages of the timers' queue have no slot yet."""
    timers = cluster.brokers[0].features.find(Timers)
    assert timers is not None
    return timers.service.index.behind


def waiting(cluster: EmbeddedCluster) -> tuple[int, int]:
    """Return how many messages wait for their time, and how many for a decision."""
    features = cluster.brokers[0].features
    timers, transactions = features.find(Timers), features.find(Transactions)
    assert timers is not None and transactions is not None
    assert features.find(Compaction) is not None
    return timers.service.index.waiting, len(transactions.halves)


async def look(cluster: EmbeddedCluster) -> dict[str, Any]:
    """Ask the HTTP side everything that it tells."""
    pool = ConnectionPool()
    try:
        live = LiveBroker(cluster.brokers[0], pool)
        answers: dict[str, Any] = {}
        for path in ("/healthz", "/api/broker", "/api/topics", "/api/groups", "/metrics"):
            status, text = await live.get(path)
            assert status == 200, (path, text)
            answers[path] = json.loads(text) if path.startswith("/api") else text
        for topic in answers["/api/topics"]:
            status, text = await live.get(f"/api/topics/{topic['name']}")
            assert status == 200, (topic, text)
        return answers
    finally:
        await pool.close()


async def make_and_restart(root: Path) -> None:
    """Make the store; a restart finds what waits, and the HTTP side tells of it."""
    async with EmbeddedCluster(root=root, broker_settings=ON) as cluster:
        await use_everything(cluster)
        # a slot counts what was delivered of it until its second is over
        await until(lambda: waiting(cluster) == LEFT, what="the second of what was due is over")
        await cluster.restart_broker()
        await until(lambda: behind(cluster) == 0, what="all that waits has its slot again")
        assert waiting(cluster) == LEFT
        answers = await look(cluster)
        assert answers["/api/broker"]["transactions"]["open"] == 1
        assert "rocketmq_half_messages" in answers["/metrics"]
        assert "rocketmq_timing_messages" in answers["/metrics"]


async def open_without(root: Path) -> None:
    """Serve the store with every feature switched off: nothing is lost of what is seen."""
    async with EmbeddedCluster(root=root, broker_settings=OFF) as cluster:
        await look(cluster)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            await producer.send(Message("plain", b"still taken"))


def test_a_store_of_all_features_goes_through_every_door(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    """Made, started again, verified, dumped, read, exported, served with all of it off."""
    asyncio.run(make_and_restart(tmp_path))
    store = tmp_path / "broker-a"
    assert verify.main([str(store)]) == 0, capsys.readouterr().out
    files = sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)
    unknown = [str(path) for path in files if dump.main([str(path)]) != 0]
    told = capsys.readouterr()
    assert not unknown, told.err[-2000:]
    for line in ("takes one back", "1 wait, units ", "messages before 4 have units"):
        assert line in told.out, line
    read = spark.read.format("rocketmq").option("path", str(store)).load()
    found = Counter({row["topic"]: row["count"] for row in read.groupBy("topic").count().collect()})
    assert found == SEEN
    export(store, tmp_path / "lake", spark=spark)
    written = spark.read.parquet(str(tmp_path / "lake")).groupBy("topic").count().collect()
    assert {row["topic"]: row["count"] for row in written} == SEEN
    with caplog.at_level(logging.WARNING, "aerobee"):
        asyncio.run(open_without(tmp_path))
    told = caplog.text
    for name in (
        "half_messages_stay", "timer_messages_stay", "retries_stored_twice", "light_queues_rest",
        "compaction_off",
    ):  # fmt: skip
        assert name in told, told
    assert verify.main([str(store)]) == 0, capsys.readouterr().out

    async def again() -> None:
        async with EmbeddedCluster(root=tmp_path, broker_settings=ON) as cluster:
            assert waiting(cluster)[1] == 1

    asyncio.run(again())
