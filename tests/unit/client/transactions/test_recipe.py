"""The recipe of client/README.md: an order and its message are one, wherever its process dies."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.fake_transactions import ask, ends, halves
from support.stand_ins.outbox_recipe import definitions, open_database, run_and_die
from support.waiting import until

from aerobee.client import TransactionProducer, TransactionSettings
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.message.properties import find_property
from aerobee.remoting.message.record import Record

COMMIT, ROLLBACK = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK


def only_half(cluster: FakeCluster) -> tuple[FakeBroker, Record]:
    """Return the one half message, and its broker."""
    ((broker, record),) = [
        (broker, record) for broker in cluster.brokers for record in halves(broker, "orders")
    ]
    return broker, record


def all_ends(cluster: FakeCluster) -> list[EndTransactionRequest]:
    """Return what all brokers were told."""
    return [end for broker in cluster.brokers for end in ends(broker)]


@pytest.mark.parametrize(
    ("place", "told", "answers"),
    [
        ("before the half", [], []),
        ("reply lost", [], [ROLLBACK]),
        ("before the rows", [], [ROLLBACK]),
        ("between the rows", [], [ROLLBACK]),
        ("behind the rows", [], [ROLLBACK]),
        ("before the commit", [], [ROLLBACK]),
        ("before the end", [], [COMMIT]),
        ("end said", [COMMIT], []),
        ("of the next order, between its rows", [COMMIT], [ROLLBACK]),
        ("of the next order, before its end", [COMMIT], [ROLLBACK]),
    ],
)
async def test_the_next_life_answers_for_the_last(
    cluster: FakeCluster, tmp_path: Path, place: str, told: list[int], answers: list[int]
) -> None:
    """Killed between any two steps: what its broker has not heard, it asks whoever starts next.

    That one says what the database says, as often as it is asked: an order has a message, and
    what is no order has none.
    """
    await run_and_die(place, cluster.namesrv, tmp_path)
    await until(lambda: not any(broker.connections for broker in cluster.brokers))
    said = all_ends(cluster)
    assert [end.commit_or_rollback for end in said] == told
    known = {end.msg_id for end in said}
    waiting = [
        (broker, record)
        for broker in cluster.brokers
        for record in halves(broker, "orders")
        if find_property(record.properties, "UNIQ_KEY") not in known
    ]
    database = open_database(tmp_path)
    async with TransactionProducer(
        "orders-placing",
        namesrv=cluster.namesrv,
        listener=definitions(tmp_path, cluster.namesrv)["Outbox"](database),
        settings=TransactionSettings(topics=("orders",)),
    ):
        for times in (1, 2):
            for broker, record in waiting:
                ask(broker, record)
                told_now = len(told) + times
                await until(lambda n=told_now: len(all_ends(cluster)) == n)  # type: ignore[misc]
                assert ends(broker)[-1].commit_or_rollback == answers[0]
    assert len(waiting) == len(answers)
    orders = [*told, *answers].count(COMMIT)
    assert database.execute("SELECT COUNT(*) FROM orders").fetchone() == (orders,)
    database.close()


async def test_a_commit_that_comes_after_the_check_fails(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Another process was asked while the block was at work: nothing it then does can stand."""
    names = definitions(tmp_path, cluster.namesrv)
    mine, other = (sqlite3.connect(tmp_path / "orders.db") for _ in range(2))
    mine.executescript(names["SCHEMA"])
    outbox = names["Outbox"](mine)
    async with TransactionProducer(
        "orders-placing", namesrv=cluster.namesrv, listener=outbox
    ) as producer:
        begin = producer._begin

        async def asked_meanwhile(*arguments: Any) -> Any:
            half = await begin(*arguments)
            broker, record = only_half(cluster)
            await names["Outbox"](other).check(half)  # whose message_id is all that it needs
            assert broker and record
            return half

        producer._begin = asked_meanwhile  # type: ignore[method-assign, assignment]
        with pytest.raises(sqlite3.IntegrityError):
            await names["place_order"](producer, mine, "order-9", 1)
        broker, _ = only_half(cluster)
        await until(lambda: ends(broker))
    assert [end.commit_or_rollback for end in ends(broker)] == [ROLLBACK]
    assert mine.execute("SELECT COUNT(*) FROM orders").fetchone() == (0,)
    mine.close()
    other.close()
