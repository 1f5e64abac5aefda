"""What is in an outbox is sent, in order, with all that a message has."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, func, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session, sessionmaker
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidMessage,
    InvalidSetting,
    InvalidUse,
    LitePullConsumer,
    Message,
    ReceivedMessage,
)
from aerobee.integrations.sqlalchemy import Outbox, OutboxProducer, OutboxRelay, RelaySettings
from aerobee.integrations.sqlalchemy.outbox import Claim
from aerobee.testing import ClusterThread

METADATA = MetaData()
QUICK = RelaySettings(interval_ms=10, claim_ms=5_000)


@pytest.fixture
def outbox(engine: Engine) -> Outbox:
    """Give an outbox whose table is there."""
    made = Outbox(METADATA)
    METADATA.create_all(engine)
    return made


def waiting(engine: Engine, outbox: Outbox) -> int:
    """Count the rows."""
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(outbox.table)).scalar_one()


async def read(cluster: ClusterThread, topic: str, count: int) -> list[ReceivedMessage]:
    """Return the first messages of a topic."""
    consumer = LitePullConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    got: list[ReceivedMessage] = []
    async with consumer:
        while len(got) < count:
            got += await consumer.poll()
    return got


async def test_a_message_arrives_as_it_was_written(
    outbox: Outbox, engine: Engine, async_engine: AsyncEngine, cluster: ClusterThread
) -> None:
    """With its id; by a relay over an async engine, which `notify` wakes."""
    cluster.create_topic("written", 1)
    message = Message(
        "written", b"\x00\xff", tags="new", keys=["a", "b"], properties={"by": "me"}, flag=9
    )
    producer = OutboxProducer("relays", namesrv=cluster.namesrv_addr)
    slow = RelaySettings(interval_ms=60_000)
    async with OutboxRelay(outbox, async_engine, producer, slow) as relay:
        async with async_engine.begin() as connection:
            first = await outbox.add_async(connection, message, key="k")
            deliver_at = datetime(2026, 1, 1, tzinfo=UTC)  # is over: at once
            second = await outbox.add_async(connection, message, deliver_at=deliver_at)
        relay.notify()
        await until(lambda: not waiting(engine, outbox))
    await async_engine.dispose()
    got = await read(cluster, "written", 2)
    assert {each.message_id for each in got} == {first, second}
    for each in got:
        assert (each.body, each.tags, each.keys, each.flag) == (b"\x00\xff", "new", ["a", "b"], 9)
        assert each.user_properties == {"by": "me"}


def test_what_no_broker_takes_is_refused_when_it_is_written(outbox: Outbox, engine: Engine) -> None:
    """The transaction of the user fails, not the relay later."""
    with engine.begin() as connection:
        for wrong in (
            Message("", b"x"),
            Message("orders", b""),
            Message("orders", b"x", tags="a b"),
            Message("orders", b"x", properties={"": "x"}),
        ):
            with pytest.raises(InvalidMessage):
                outbox.add(connection, wrong)
        with pytest.raises(InvalidMessage, match="255"):
            outbox.add(connection, Message("orders", b"x"), key="k" * 256)
    assert waiting(engine, outbox) == 0


async def test_what_fails_holds_up_its_key_alone(
    outbox: Outbox, engine: Engine, cluster: ClusterThread
) -> None:
    """The order of a key stays; the row says why, and is sent when it can be."""
    cluster.create_topic("ordered", 4)
    refused = OutboxProducer(namesrv=cluster.namesrv_addr)
    relay = OutboxRelay(outbox, engine, refused, QUICK)
    await refused.start()
    with engine.begin() as connection:
        ids = [outbox.add(connection, Message("ordered", b"%d" % at), key="k") for at in range(3)]
        outbox.add(connection, Message("ordered", b"other"))
        connection.execute(  # as if something had written another
            update(outbox.table).where(outbox.table.c.message_id == ids[0]).values(body=b"")
        )
        connection.execute(
            update(outbox.table).where(outbox.table.c.message_id == ids[0]).values(headers="{}")
        )
    assert await relay.relay_once() == 4
    assert waiting(engine, outbox) == 3
    assert await relay.relay_once() == 0, "those behind it wait as well"
    with engine.begin() as connection:
        row = connection.execute(select(outbox.table).order_by(outbox.table.c.number)).first()
        assert row is not None and row.failures == 1 and "empty body" in row.last_error
        connection.execute(update(outbox.table).values(held_until_ms=0))
        connection.execute(
            update(outbox.table).where(outbox.table.c.message_id == ids[0]).values(body=b"0")
        )
    assert await relay.relay_once() == 3
    await refused.close()
    got = await read(cluster, "ordered", 4)
    assert [each.body for each in got if each.body != b"other"] == [b"0", b"1", b"2"]
    assert waiting(engine, outbox) == 0


async def test_a_row_that_is_no_message_is_put_away(
    outbox: Outbox, engine: Engine, cluster: ClusterThread
) -> None:
    """The others are sent."""
    cluster.create_topic("sound", 1)
    producer = OutboxProducer(namesrv=cluster.namesrv_addr)
    with engine.begin() as connection:
        bad = outbox.add(connection, Message("sound", b"bad"))
        outbox.add(connection, Message("sound", b"good"))
        row = outbox.table.c.message_id == bad
        connection.execute(update(outbox.table).where(row).values(headers="nonsense"))
    async with producer:
        await OutboxRelay(outbox, engine, producer, QUICK).relay_once()
    (got,) = await read(cluster, "sound", 1)
    assert got.body == b"good"
    with engine.connect() as connection:
        (row_left,) = connection.execute(select(outbox.table)).all()
    assert "cannot be read" in row_left.last_error


async def test_relays_share_rows_and_follow_who_died(
    outbox: Outbox, engine: Engine, cluster: ClusterThread
) -> None:
    """A row is one relay's until its time is up."""
    cluster.create_topic("shared", 1)
    with engine.begin() as connection:
        outbox.add(connection, Message("shared", b"x"))
        dead, living = Claim("dead", 2_000), Claim("living", 3_000)
        assert outbox.claim(connection, dead, 1_000, 10)
        assert not outbox.claim(connection, living, 1_500, 10)
        assert outbox.claim(connection, living, 2_000, 10)
        assert not outbox.claimed(connection, dead)
        (row,) = outbox.claimed(connection, living)
        # one that was slow, not dead, changes nothing of what is another's by now
        outbox.freed(connection, dead, [row.number])
        outbox.failed(connection, dead, row, "too late", 0)
        assert not outbox.claim(connection, Claim("third", 4_000), 2_500, 10)


def test_a_relay_of_what_begins_no_transactions_is_refused(outbox: Outbox, engine: Engine) -> None:
    """When it is made, not when it looks for the first time."""
    producer = OutboxProducer(namesrv="127.0.0.1:1")
    with pytest.raises(InvalidUse, match="no engine and no maker of sessions"):
        OutboxRelay(outbox, Session(engine), producer)  # type: ignore[arg-type]


def test_a_clock_that_jumped_back_holds_no_rows(outbox: Outbox, engine: Engine) -> None:
    """What was marked in its future is sent, and not a year later; with what has its key."""
    year_ms = 365 * 86_400_000
    with engine.begin() as connection:
        for at in range(2):
            outbox.add(connection, Message("clocks", b"%d" % at), key="k")
        assert outbox.claim(connection, Claim("wrong", year_ms + 31_000), year_ms + 1_000, 1)
        right = Claim("right", 31_000)
        assert outbox.claim(connection, right, 1_000, 10)
        assert [each.message.body for each in outbox.claimed(connection, right)] == [b"0", b"1"]


def test_relays_that_look_at_once_keep_the_order_of_a_key(outbox: Outbox, engine: Engine) -> None:
    """Where one has the first message of a key, another lets the second wait."""
    with engine.begin() as connection:
        for at in range(3):
            outbox.add(connection, Message("races", b"%d" % at), key="k")
        outbox.add(connection, Message("races", b"other"), key="l")
        first, second = Claim("first", 9_000), Claim("second", 9_000)
        assert outbox.claim(connection, first, 1_000, 1)
        # as of who had looked before that was committed
        rows = outbox.table.c.held_until_ms == 0
        marked = {"held_by": second.relay, "held_until_ms": second.until_ms}
        connection.execute(update(outbox.table).where(rows).values(marked))
        assert [each.message.body for each in outbox.claimed(connection, first)] == [b"0"]
        assert [each.message.body for each in outbox.claimed(connection, second)] == [b"other"]
        assert not outbox.claim(connection, Claim("third", 9_500), 1_500, 10)
        outbox.sent(connection, [each.number for each in outbox.claimed(connection, first)])
        third = Claim("third", 9_600)
        assert outbox.claim(connection, third, 1_600, 10)
        assert [each.message.body for each in outbox.claimed(connection, third)] == [b"1", b"2"]


def test_what_is_behind_a_row_that_is_no_message_waits_with_it(
    outbox: Outbox, engine: Engine
) -> None:
    """As it does behind one that no broker takes."""
    with engine.begin() as connection:
        bad = outbox.add(connection, Message("broken", b"bad"), key="k")
        outbox.add(connection, Message("broken", b"behind"), key="k")
        outbox.add(connection, Message("broken", b"other"), key="l")
        row = outbox.table.c.message_id == bad
        connection.execute(update(outbox.table).where(row).values(headers="nonsense"))
        for now_ms in (1_000, 9_000):  # and the next time
            claim = Claim("relay", now_ms + 5_000)
            assert outbox.claim(connection, claim, now_ms, 10)
            got = outbox.claimed(connection, claim)
            assert [each.message.body for each in got] == [b"other"]
            outbox.freed(connection, claim, [each.number for each in got])


def test_an_error_with_what_databases_refuse_is_written(outbox: Outbox, engine: Engine) -> None:
    """A remark may have anything in it: the others were sent, and have to be deleted."""
    with engine.begin() as connection:
        outbox.add(connection, Message("remarks", b"x"))
        claim = Claim("relay", 5_000)
        assert outbox.claim(connection, claim, 1_000, 10)
        (row,) = outbox.claimed(connection, claim)
        outbox.failed(connection, claim, row, "nul \0 and half \ud800", 6_000)
        said = connection.execute(select(outbox.table.c.last_error)).scalar_one()
    assert said == "nul ? and half ?"


class Busy(sessionmaker[Session]):
    """Makes sessions whose commits fail some times, as in a deadlock."""

    fails = 0

    def begin(self) -> Any:
        """Begin, and fail at the end if it is to."""
        return self._begin()

    @contextmanager
    def _begin(self) -> Iterator[Session]:
        with super().begin() as session:
            yield session
            if self.fails:
                self.fails -= 1
                raise OperationalError("DELETE", {}, Exception("deadlock detected"))


async def test_a_deadlock_behind_a_send_does_not_send_again(
    outbox: Outbox, engine: Engine, cluster: ClusterThread
) -> None:
    """What was sent is noted as soon as the database lets that be."""
    cluster.create_topic("noted", 1)
    with engine.begin() as connection:
        outbox.add(connection, Message("noted", b"x"))
    busy = Busy(engine)

    class Watched(OutboxProducer):
        sends = 0

        async def send_as(self, *given: Any, **how: Any) -> Any:
            self.sends += 1
            busy.fails = 2
            return await super().send_as(*given, **how)

    producer = Watched(namesrv=cluster.namesrv_addr)
    async with producer:
        assert await OutboxRelay(outbox, busy, producer, QUICK).relay_once() == 1
    assert (producer.sends, busy.fails, waiting(engine, outbox)) == (1, 0, 0)


async def test_a_slow_chain_of_a_key_is_left_before_it_is_anothers(
    outbox: Outbox, engine: Engine, cluster: ClusterThread
) -> None:
    """A claim that is about to run out is not sent on under; its rest is free at once."""
    cluster.create_topic("slow", 1)
    with engine.begin() as connection:
        for at in range(3):
            outbox.add(connection, Message("slow", b"%d" % at), key="k")

    class Slow(OutboxProducer):
        async def send_as(self, *given: Any, **how: Any) -> Any:
            await asyncio.sleep(0.02)
            return await super().send_as(*given, **how)

    settings = RelaySettings(claim_ms=3_010)  # a send may take 3,000
    async with Slow(namesrv=cluster.namesrv_addr) as producer:
        relay = OutboxRelay(outbox, engine, producer, settings)
        for left in (2, 1, 0):
            await relay.relay_once()
            assert waiting(engine, outbox) == left
    got = await read(cluster, "slow", 3)
    assert [each.body for each in got] == [b"0", b"1", b"2"]


async def test_a_relay_outlives_its_database(
    outbox: Outbox, engine: Engine, cluster: ClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and when it is over."""
    caplog.set_level("INFO")
    cluster.create_topic("late", 1)
    outbox.table.drop(engine)
    producer = OutboxProducer(namesrv=cluster.namesrv_addr)
    async with OutboxRelay(outbox, engine, producer, QUICK) as relay:
        with pytest.raises(InvalidUse, match="started already"):
            await relay.start()
        await until(lambda: "relaying fails" in caplog.text)
        await asyncio.sleep(0.05)
        METADATA.create_all(engine)
        with engine.begin() as connection:
            outbox.add(connection, Message("late", b"x"))
        await until(lambda: not waiting(engine, outbox))
        await until(lambda: "relaying works again" in caplog.text)
    assert caplog.text.count("relaying fails") == 1


@pytest.mark.parametrize("name", ["batch_messages", "interval_ms", "claim_ms"])
def test_settings_are_whole_numbers(name: str) -> None:
    """What is none is refused by name."""
    for wrong in (0, -1, 1.5, "x", True, float("nan"), None):
        with pytest.raises(InvalidSetting, match=name):
            RelaySettings(**{name: wrong})  # type: ignore[arg-type]
