"""The database has the last word on where a group is."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import Column, Engine, MetaData, Table, Text, insert, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session, sessionmaker
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    ReceivedMessage,
)
from aerobee.integrations.sqlalchemy import Offsets
from aerobee.testing import ClusterThread

METADATA = MetaData()
BILLS = Table("bills", METADATA, Column("number", Text, nullable=False))


@pytest.fixture
def offsets(engine: Engine) -> Offsets:
    """Give offsets whose table is there."""
    made = Offsets(METADATA)
    METADATA.create_all(engine)
    return made


def bills(engine: Engine) -> list[str]:
    """Return the effects."""
    with engine.connect() as connection:
        return list(connection.execute(select(BILLS.c.number)).scalars())


def bill(session: Any, messages: list[ReceivedMessage]) -> None:
    """Have the effects of a batch."""
    for message in messages:
        session.execute(insert(BILLS).values(number=message.body.decode()))


async def send(cluster: ClusterThread, topic: str, numbers: range) -> MessageQueue:
    """Send to the one queue of a topic."""
    async with Producer(namesrv=cluster.namesrv_addr) as producer:
        for number in numbers:
            sent = await producer.send(Message(topic, b"%d" % number))
    return sent.queue


@asynccontextmanager
async def consuming(
    cluster: ClusterThread, topic: str, offsets: Offsets, database: Any, **options: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """Consume for the length of a block."""
    consumer = LitePullConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    effects = options.pop("effects", bill)
    async with consumer:
        task = asyncio.create_task(offsets.consume(consumer, database, effects, **options))
        yield task
        task.cancel()
        await asyncio.wait([task])


async def test_a_group_goes_on_where_its_row_says(
    offsets: Offsets, engine: Engine, cluster: ClusterThread
) -> None:
    """Ahead of what the broker knows, and behind it, as after a backup of the database."""
    cluster.create_topic("rows", 1)
    queue = await send(cluster, "rows", range(10))
    async with consuming(cluster, "rows", offsets, engine):
        await until(lambda: len(bills(engine)) == 10)
    with engine.begin() as connection:
        assert offsets.read(connection, "g", queue) == 10
        offsets.move(connection, "g", queue, 4)
        connection.execute(BILLS.delete())
    async with consuming(cluster, "rows", offsets, engine):
        await until(lambda: len(bills(engine)) == 6)
    with engine.begin() as connection:
        offsets.move(connection, "g", queue, 13)
    await send(cluster, "rows", range(10, 15))
    async with consuming(cluster, "rows", offsets, engine):
        await until(lambda: "14" in bills(engine))
    assert bills(engine) == ["4", "5", "6", "7", "8", "9", "13", "14"]


async def test_a_queue_that_is_shorter_is_read_where_the_broker_says(
    offsets: Offsets, engine: Engine, cluster: ClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    """What was lost cannot be had, and what is new is not taken for done."""
    cluster.create_topic("short", 1)
    queue = await send(cluster, "short", range(3))
    with engine.begin() as connection:
        offsets.move(connection, "g", queue, 1_000)
    async with consuming(cluster, "short", offsets, engine):
        await until(lambda: len(bills(engine)) == 3)
    assert "shorter" in caplog.text
    with engine.begin() as connection:
        assert offsets.read(connection, "g", queue) == 3
        assert offsets.forget(connection, "short", "others") == 0
        assert offsets.forget(connection, "short") == 1


async def test_two_that_believe_to_own_a_queue_have_effects_once(
    offsets: Offsets, engine: Engine, cluster: ClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    """The second finds the row moved, and reads on behind the first."""
    cluster.create_topic("twice", 1)
    queue = await send(cluster, "twice", range(20))
    async with consuming(cluster, "twice", offsets, engine):
        await until(lambda: len(bills(engine)) == 20)
        with engine.begin() as connection:  # as another member, which had more of the queue
            offsets.move(connection, "g", queue, 22)
        await send(cluster, "twice", range(20, 25))
        await until(lambda: "24" in bills(engine))
    assert sorted(map(int, bills(engine))) == [*range(20), 22, 23, 24]
    assert "another member was faster" in caplog.text


async def test_async_effects_are_awaited(
    offsets: Offsets, engine: Engine, async_engine: AsyncEngine, cluster: ClusterThread
) -> None:
    """Over an async engine; a plain function is refused there, and the other way round."""

    async def effects(session: Any, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            await session.execute(insert(BILLS).values(number=message.body.decode()))

    cluster.create_topic("async", 1)
    await send(cluster, "async", range(5))
    async with consuming(cluster, "async", offsets, async_engine, effects=effects):
        await until(lambda: len(bills(engine)) == 5)
    consumer = LitePullConsumer("g", namesrv=cluster.namesrv_addr)
    with pytest.raises(InvalidUse, match="must be a plain function"):
        await offsets.consume(consumer, engine, effects)
    with pytest.raises(InvalidUse, match="must be an async function"):
        await offsets.consume(consumer, async_engine, bill)
    await async_engine.dispose()


async def test_a_locked_database_is_waited_for(
    offsets: Offsets, engine: Engine, cluster: ClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    """So long, and then it is an error; what effects raise is one at once."""
    cluster.create_topic("locked", 1)
    await send(cluster, "locked", range(5))
    tries: list[int] = []

    def locked(session: Any, messages: list[ReceivedMessage]) -> None:
        bill(session, messages)
        tries.append(len(messages))
        if len(tries) < 3:
            raise OperationalError("UPDATE", {}, Exception("database is locked"))

    async with consuming(cluster, "locked", offsets, engine, effects=locked):
        await until(lambda: len(bills(engine)) == 5)
    assert caplog.text.count("the database fails") == 1

    def fails(session: Any, messages: list[ReceivedMessage]) -> None:
        raise OperationalError("UPDATE", {}, Exception("database is locked"))

    def wrong(session: Any, messages: list[ReceivedMessage]) -> None:
        raise ZeroDivisionError

    for effects, error in ((fails, OperationalError), (wrong, ZeroDivisionError)):
        await send(cluster, "locked", range(5, 6))
        options = {"effects": effects, "patience_ms": 1}
        async with consuming(cluster, "locked", offsets, engine, **options) as task:
            with pytest.raises(error):
                await asyncio.wait_for(asyncio.shield(task), 20)
    assert len(bills(engine)) == 5


async def test_a_deadlock_and_a_database_that_is_away_are_waited_for(
    offsets: Offsets, engine: Engine, cluster: ClusterThread
) -> None:
    """However a driver calls them; what effects do over the network is theirs."""
    cluster.create_topic("away", 1)
    await send(cluster, "away", range(3))
    conflict = Exception("could not serialize access")
    conflict.sqlstate = "40001"  # type: ignore[attr-defined]
    failures: list[Exception] = [DBAPIError("UPDATE", {}, conflict), ConnectionRefusedError()]

    class Away(sessionmaker[Session]):
        def begin(self) -> Any:
            if failures:
                raise failures.pop()
            return super().begin()

    async with consuming(cluster, "away", offsets, Away(engine)):
        await until(lambda: len(bills(engine)) == 3)
    assert not failures

    def asks(session: Any, messages: list[ReceivedMessage]) -> None:
        raise ConnectionRefusedError("of a service")

    await send(cluster, "away", range(3, 4))
    async with consuming(cluster, "away", offsets, engine, effects=asks) as task:
        with pytest.raises(ConnectionRefusedError, match="of a service"):
            await asyncio.wait_for(asyncio.shield(task), 20)
    assert len(bills(engine)) == 3


async def test_a_database_that_is_away_before_anything_came_is_asked_again(
    offsets: Offsets, engine: Engine, cluster: ClusterThread
) -> None:
    """Where a queue begins is asked when it is new, which ends nobody either."""
    topic = f"early-{uuid.uuid4().hex}"  # without a message, also where this is tried again
    cluster.create_topic(topic, 1)
    conflict = Exception("could not serialize access")
    conflict.sqlstate = "40001"  # type: ignore[attr-defined]
    failures: list[Exception] = [DBAPIError("SELECT", {}, conflict), ConnectionRefusedError()]

    class Away(sessionmaker[Session]):
        def begin(self) -> Any:
            if failures:
                raise failures.pop()
            return super().begin()

    async with consuming(cluster, topic, offsets, Away(engine)) as task:
        await until(lambda: not failures or task.done())
        await send(cluster, topic, range(3))
        await until(lambda: len(bills(engine)) == 3 or task.done())
        assert not task.done()


async def test_what_begins_no_transactions_is_refused(offsets: Offsets, engine: Engine) -> None:
    """Before anything is read."""
    consumer = LitePullConsumer("g", namesrv="127.0.0.1:1")
    with pytest.raises(InvalidUse, match="no engine and no maker of sessions"):
        await offsets.consume(consumer, Session(engine), bill)  # type: ignore[arg-type]
