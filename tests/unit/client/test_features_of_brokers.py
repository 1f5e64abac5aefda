"""Our client and our broker together: transactions, messages at a time, recalls, searches."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from support.interop.own_features import CASES, Reader, reading
from support.stand_ins.outbox_recipe import definitions, open_database, run_and_die
from support.waiting import until

from aerobee.client import Message, TransactionProducer, TransactionSettings
from aerobee.testing import EmbeddedCluster

SECONDS_MAX = 20


def seen(reader: Reader) -> int:
    """How often consumers saw the order's message."""
    return reader.seen[b"order-7 costs 4200"]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A broker that asks about half messages soon, and takes messages back."""
    settings = {
        "transaction_time_out": 200,
        "transaction_check_interval": 300,
        "recall_message_enable": True,
        "max_hash_slot_num": 20_000,  # small files of the index
        "max_index_num": 50_000,
    }
    async with EmbeddedCluster(root=tmp_path / "servers", broker_settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_promise_holds(
    cluster: EmbeddedCluster, case: Callable[[str], Awaitable[None]]
) -> None:
    """As the case says; the real RocketMQ is held to the same."""
    await case(cluster.namesrv_addr)


@pytest.mark.parametrize(
    ("place", "orders"), [("before the commit", 0), ("before the end", 1)], ids=["rows", "end"]
)
async def test_an_order_and_its_message_are_one(
    cluster: EmbeddedCluster, tmp_path: Path, place: str, orders: int
) -> None:
    """The recipe's process is killed; the next one is asked, and consumers see what is true."""
    async with reading(cluster.namesrv_addr, "orders") as reader:
        await run_and_die(place, cluster.namesrv_addr, tmp_path)
        database = open_database(tmp_path)
        async with TransactionProducer(
            "orders-placing",
            namesrv=cluster.namesrv_addr,
            listener=definitions(tmp_path, cluster.namesrv_addr)["Outbox"](database),
            settings=TransactionSettings(topics=("orders",)),
        ) as heir:

            def decided() -> bool:
                rows = database.execute("SELECT committed FROM outbox").fetchall()
                return rows == [(orders,)] and seen(reader) == orders

            await until(decided, SECONDS_MAX)
            async with heir.transaction(Message("orders", b"last")):
                pass
            await until(lambda: reader.seen[b"last"], SECONDS_MAX)
        assert seen(reader) == orders
        found = database.execute("SELECT COUNT(*) FROM orders").fetchone()
        assert found == (orders,)
        database.close()
