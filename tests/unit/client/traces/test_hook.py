"""What a traced producer and consumer write, read back from a real broker's trace topic."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.stand_ins.transacting import Answers
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Later,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
)
from aerobee.client.hooks import EndTransactionContext, RecallContext
from aerobee.client.plain.traces import MessageTraces, read_traces
from aerobee.client.traces import records
from aerobee.testing import EmbeddedCluster

TRACED = ClientSettings(enable_trace=True, trace_batch_messages=1, rebalance_gap_ms=20)


async def traces(cluster: EmbeddedCluster, message_id: str) -> MessageTraces:
    """Return what was written of a message."""
    return await read_traces(cluster.namesrv_addr, message_id)


async def test_sends_and_handlings_are_written(tmp_path: Path) -> None:
    """Single and batch, a failure and its retry, polls; each with what RocketMQ's clients say."""
    settings = {"message_delay_level": "100s 100s 1s 1s", "trace_topic_enable": True}
    done: list[int] = []

    async def handle(message: ReceivedMessage) -> Later | None:
        done.append(message.reconsume_times)
        return Later() if message.tags == "A" and message.reconsume_times == 0 else None

    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        addresses = cluster.namesrv_addr
        await cluster.create_topic("t", 2)
        consumer = PushConsumer(
            "c", namesrv=addresses, client=TRACED, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("t", handle)
        lite = LitePullConsumer(
            "l", namesrv=addresses, client=TRACED, consume_from=ConsumeFrom.FIRST
        )
        lite.subscribe("t")
        async with Producer("p", namesrv=addresses, client=TRACED) as producer, consumer, lite:
            sent = await producer.send(Message("t", b"hello", tags="A", keys="k1"))
            batch = await producer.send_many([Message("t", b"1", tags="B"), Message("t", b"22")])
            await producer.send_oneway(Message("t", b"nobody knows"))
            polled: set[bytes] = set()
            while len(polled) < 4:
                polled |= {message.body for message in await lite.poll()}
            await until(lambda: len(done) == 5, 20, what="all are handled, one of them twice")
        one = await traces(cluster, sent.message_id)
        (pub,) = one.sent
        assert (pub.group, pub.topic, pub.tags, pub.keys) == ("p", "t", "A", "k1")
        assert pub.region == "DefaultRegion" and pub.store_host in cluster.broker_addrs
        assert (pub.body_bytes, pub.message_type, pub.succeeded) == (5, records.NORMAL, True)
        assert pub.offset_message_id == sent.offset_message_id and 0 <= pub.cost_ms < 5_000
        by_group: dict[str, list[tuple[int, int, bool]]] = {"c": [], "l": []}
        for each in one.handled:
            assert each.before is not None and each.after is not None
            assert each.before.keys == "k1" and each.after.group == each.before.group
            said = each.before.retry_times, each.after.outcome, each.after.succeeded
            by_group[each.before.group].append(said)
        assert by_group["c"] == [(0, records.FAILED, False), (1, records.SUCCESS, True)]
        assert by_group["l"] == [(0, records.SUCCESS, True)]
        second = await traces(cluster, batch.message_id.split(",")[1])
        assert second.sent[0].message_id == batch.message_id and second.sent[0].body_bytes == 3
        assert (second.sent[0].keys, len(second.handled)) == (None, 2)


async def test_a_broker_may_want_no_traces(tmp_path: Path) -> None:
    """`traceOn=false`: neither sends nor handlings are written, and no topic is made of it."""
    got: list[bytes] = []
    settings = {"trace_on": False}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        consumer = PushConsumer(
            "c", namesrv=cluster.namesrv_addr, client=TRACED, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("t", lambda message: got.append(message.body))
        await cluster.create_topic("t", 1)
        async with Producer("p", namesrv=cluster.namesrv_addr, client=TRACED) as producer, consumer:
            sent = await producer.send(Message("t", b"x"))
            assert not sent.trace_on
            await until(lambda: got, 20, what="the message to be handled")
            assert producer._trace is not None and producer._trace.dispatcher.sent == 0
        found = await traces(cluster, sent.message_id)
        assert not found.sent and not found.handled


async def test_fates_of_transactions_and_recalls_are_written(tmp_path: Path) -> None:
    """By the hooks that a producer has; a hook that raises harms nobody."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        async with Producer("p", namesrv=cluster.namesrv_addr, client=TRACED) as producer:
            message = Message("t", b"x", tags="A", keys=["k1", "k2"])
            end = EndTransactionContext(
                "p", message, cluster.broker_addrs[0], "ID1", "ID1", "COMMIT_MESSAGE", True
            )
            end.tell(producer._hooks)
            end.tell((object(),))
            RecallContext("p", "t", "ID2", True).tell(producer._hooks)
            trace = Message("RMQ_SYS_TRACE_TOPIC_2", b"x")
            EndTransactionContext("p", trace, "", "ID3", None, "UNKNOW").tell(producer._hooks)
            await producer.send(trace)
        (ended,) = (await traces(cluster, "ID1")).transactions
        assert (ended.state, ended.from_check, ended.keys) == ("COMMIT_MESSAGE", True, "k1 k2")
        assert ended.message_type == records.TRANS_COMMIT
        (recalled,) = (await traces(cluster, "ID2")).recalls
        assert (recalled.group, recalled.topic, recalled.succeeded) == ("p", "t", True)
        assert not (await traces(cluster, "ID3")).transactions


async def test_real_transactions_and_recalls_are_written(tmp_path: Path) -> None:
    """A half is told as one, with its end; a recall with the region of its broker."""
    settings = {"region_id": "north", "recall_message_enable": True}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        addresses = cluster.namesrv_addr
        async with TransactionProducer(
            "p", namesrv=addresses, client=TRACED, listener=Answers()
        ) as producer:
            async with producer.transaction(Message("t", b"x", keys="k")) as half:
                pass
            later = await producer.send(Message("t", b"y"), delay=timedelta(hours=1))
            await producer.recall(later)
        told = await traces(cluster, half.message_id)
        (pub,), (ended,) = told.sent, told.transactions
        assert (pub.message_type, pub.region) == (records.TRANS_HALF, "north")
        assert (ended.state, ended.from_check) == ("COMMIT_MESSAGE", False)
        assert (ended.keys, ended.transaction_id) == ("k", half.message_id)
        told = await traces(cluster, later.message_id)
        (pub,), (recalled,) = told.sent, told.recalls
        assert (pub.message_type, recalled.succeeded) == (records.DELAY, True)
        assert (recalled.group, recalled.topic, recalled.region) == ("p", "t", "north")


async def test_a_cluster_says_which_topic_has_traces(tmp_path: Path) -> None:
    """It makes that at its start; traces for another one are lost, counted, and fail no send."""
    settings = {
        "trace_topic_enable": True,
        "msg_trace_topic_name": "own_traces",
        "auto_create_topic_enable": False,
    }
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 1)
        addresses = cluster.namesrv_addr
        own = replace(TRACED, trace_topic="own_traces", instance_name="own")
        async with (
            Producer("p", namesrv=addresses, client=own) as producer,
            Producer("q", namesrv=addresses, client=TRACED) as other,
        ):
            sent = await producer.send(Message("t", b"x"))
            lost = await other.send(Message("t", b"y"))
            assert lost.queue_offset == sent.queue_offset + 1
            assert producer._trace is not None and other._trace is not None
            traced, untraced = producer._trace.dispatcher, other._trace.dispatcher
            await until(lambda: untraced.failed == traced.sent == 1, 20, what="both traces")
        told = await read_traces(addresses, sent.message_id, trace_topic="own_traces")
        assert [pub.group for pub in told.sent] == ["p"]
        assert not (await traces(cluster, lost.message_id)).sent


async def test_a_cluster_without_traces_has_none(tmp_path: Path) -> None:
    """Neither topic nor traces are no error."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        assert await traces(cluster, "X") == MessageTraces([], [], [], [])


def test_nothing_of_it_is_imported_before_it_is_wanted() -> None:
    """A client that writes no traces pays for none."""
    code = "import sys, aerobee.client; print([m for m in sys.modules if '.traces.hook' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_are_checked() -> None:
    """There are two channels."""
    with pytest.raises(ValueError, match="access_channel"):
        ClientSettings(access_channel="MARS")
