"""Brokers ask what became of half messages: whoever is of the group answers, as the data tell."""

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.fake_transactions import ask, ends, halves
from support.stand_ins.transacting import Answers, one_told, producer, told
from support.waiting import until

from aerobee.client import (
    Message,
    TransactionState,
)
from aerobee.remoting.codes import RequestCode, SysFlag
from aerobee.remoting.command import Command

COMMIT, ROLLBACK, UNKNOWN = (
    SysFlag.TRANSACTION_COMMIT,
    SysFlag.TRANSACTION_ROLLBACK,
    SysFlag.TRANSACTION_NONE,
)


async def test_brokers_know_the_group_before_anything_is_sent(cluster: FakeCluster) -> None:
    """By the topics of the settings, else by those that create topics: checks find an heir."""
    cluster.create("t", 1)
    for topics in ((), ("t",), ("t", "not-there-yet")):
        async with producer(cluster, topics=topics):
            assert all("tg" in broker.producers for broker in cluster.brokers)
        for broker in cluster.brokers:
            broker.producers.clear()
    cluster.brokers[1].topics.pop("t")
    async with producer(cluster, topics=("t",)):
        assert ["tg" in broker.producers for broker in cluster.brokers] == [True, False]


def half_of(cluster: FakeCluster) -> tuple[FakeBroker, Any]:
    """Return the only half message there is, and its broker."""
    ((broker, record),) = [
        (broker, record) for broker in cluster.brokers for record in halves(broker, "t")
    ]
    return broker, record


@pytest.mark.parametrize(
    ("state", "expected", "remark"),
    [
        (TransactionState.COMMIT, COMMIT, None),
        (TransactionState.ROLLBACK, ROLLBACK, None),
        (TransactionState.UNKNOWN, UNKNOWN, None),
        ("nonsense", UNKNOWN, "no TransactionState"),
        (ValueError("database is away"), UNKNOWN, "ValueError: database is away"),
    ],
)
async def test_a_broker_that_asks_is_answered(
    cluster: FakeCluster, state: object, expected: int, remark: str | None
) -> None:
    """On the connection that it asked on, with what it asked by; an error is for its log."""
    cluster.create("t", 1)
    listener = Answers(state)
    async with producer(cluster, listener) as transactions:
        async with transactions.transaction(Message("t", b"x", keys="k")) as half:
            half.decide(TransactionState.UNKNOWN)
        broker, record = half_of(cluster)
        await until(lambda: len(ends(broker)) == 1)
        ask(broker, record, offset=77)
        await until(lambda: len(ends(broker)) == 2)
    (message,) = listener.asked
    assert (message.topic, message.body, message.keys) == ("t", b"x", ["k"])
    assert message.message_id == half.message_id
    end = ends(broker)[1]
    assert (end.commit_or_rollback, end.from_transaction_check) == (expected, True)
    assert (end.topic, end.producer_group) == ("RMQ_SYS_TRANS_HALF_TOPIC", "tg")
    assert (end.tran_state_table_offset, end.commit_log_offset) == (77, record.position)
    assert (end.msg_id, end.transaction_id) == (half.message_id, half.message_id)
    said = broker.requests(RequestCode.END_TRANSACTION)[1].remark
    assert said is None if remark is None else remark in (said or "")


async def test_nobody_is_asked_while_the_block_is_at_work(cluster: FakeCluster) -> None:
    """Who looked at the data now would say that nothing happened, and lose the message."""
    cluster.create("t", 1)
    listener = Answers(TransactionState.ROLLBACK)
    async with producer(cluster, listener) as transactions:
        async with transactions.transaction(Message("t", b"x")):
            broker, record = half_of(cluster)
            ask(broker, record)
            await transactions.send(Message("t", b"behind the question"), queue=None)
            await asyncio.sleep(0)
            assert not listener.asked and not told(cluster)
        assert await one_told(cluster) == COMMIT


async def test_any_member_answers_for_the_group(cluster: FakeCluster) -> None:
    """The next life of a process is asked about what the last one has left open."""
    cluster.create("t", 1)
    async with producer(cluster, topics=("t",)) as first:
        with contextlib.suppress(KeyboardInterrupt):
            async with first.transaction(Message("t", b"x")):
                raise KeyboardInterrupt
    broker, record = half_of(cluster)
    listener = Answers()
    async with producer(cluster, listener, topics=("t",)):
        ask(broker, record)
        await until(lambda: len(ends(broker)) == 2)
    assert [end.commit_or_rollback for end in ends(broker)] == [UNKNOWN, COMMIT]


async def test_what_is_no_question_harms_nobody(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged body, a group that nobody answers for: a line in the log."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        async with transactions.transaction(Message("t", b"x")):
            pass
        broker, record = half_of(cluster)
        code = RequestCode.CHECK_TRANSACTION_STATE
        ext = {"tranStateTableOffset": "1", "commitLogOffset": "2"}
        connection = broker.producers["tg"]
        for body in (b"", b"nonsense", bytes(200)):
            connection.oneway(Command(code, ext, body))
        await until(lambda: caplog.text.count("not understood") == 3)
        other = record.properties.replace(b"PGROUP\x01tg", b"PGROUP\x01other")
        broker.producers["other"] = connection
        ask(broker, replace(record, properties=other))
        await until(lambda: "nobody here answers for its group group=other" in caplog.text)
        async with transactions.transaction(Message("t", b"y")) as half:
            pass
        assert half.told
