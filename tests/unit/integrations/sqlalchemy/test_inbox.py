"""What is noted in an inbox has had its effects, and has them once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Column, Engine, MetaData, Table, Text, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, async_sessionmaker
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    InvalidUse,
    Later,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.integrations.sqlalchemy import Inbox
from aerobee.integrations.sqlalchemy import inbox as module
from aerobee.testing import ClusterThread

METADATA = MetaData()
BILLS = Table("bills", METADATA, Column("number", Text, nullable=False))


def received(key: str | None = "A1", *, topic: str = "orders", more: str = "") -> ReceivedMessage:
    """Return a message as a consumer gets it."""
    own = f"UNIQ_KEY\x01{key}\x02" if key is not None else ""
    queue = MessageQueue(topic, "b", 0)
    properties = (own + more).encode()
    host = bytes((127, 0, 0, 1, 0, 0, 0, 9))
    return ReceivedMessage(queue, b"7", 17, 0, 0, 640, 0, 0, 0, 0, properties, host, host)


@pytest.fixture
def inbox(engine: Engine) -> Inbox:
    """Give an inbox whose table is there."""
    made = Inbox("billing", METADATA)
    METADATA.create_all(engine)
    return made


def bills(engine: Engine) -> int:
    """Count the effects."""
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(BILLS)).scalar_one()


def test_a_message_is_new_once(inbox: Inbox, engine: Engine) -> None:
    """For a group and a topic; what was rolled back is new again."""
    with Session(engine) as session:
        assert inbox.is_new(session, received())
        session.rollback()
    with sessionmaker(engine).begin() as session:
        assert inbox.is_new(session, received())
        assert not inbox.is_new(session, received())
    with engine.begin() as connection:
        assert not inbox.is_new(connection, received())
        assert inbox.is_new(connection, received(topic="others"))
        assert Inbox("shipping", METADATA).is_new(connection, received())
        assert not inbox.is_new(connection, received("A1", topic="%RETRY%billing", more=RETRIED))


RETRIED = "RETRY_TOPIC\x01orders\x02"


def test_a_message_without_an_id_is_known_by_the_brokers(inbox: Inbox, engine: Engine) -> None:
    """Also when it comes back as a copy, at another place."""
    first = received(None)
    again = received(None, more=f"ORIGIN_MESSAGE_ID\x01{first.offset_message_id}\x02{RETRIED}")
    with engine.begin() as connection:
        assert inbox.is_new(connection, first)
        assert not inbox.is_new(connection, again)
        with pytest.raises(InvalidUse, match="255 characters"):
            inbox.is_new(connection, received("A" * 256))


def test_a_database_that_does_not_tell_is_asked_by_a_savepoint(
    inbox: Inbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done before in the transaction stays."""
    monkeypatch.setattr(module, "_TELLING", {})
    with engine.begin() as connection:
        connection.exec_driver_sql("BEGIN")  # Python's driver begins none for a savepoint
        assert inbox.is_new(connection, received())
        assert not inbox.is_new(connection, received())
    with engine.begin() as connection:
        assert not inbox.is_new(connection, received())


def test_old_rows_are_forgotten(inbox: Inbox, engine: Engine) -> None:
    """Those of this group, before a moment that has a zone."""
    now = datetime.now(UTC)
    with engine.begin() as connection:
        assert inbox.is_new(connection, received())
        assert Inbox("shipping", METADATA).is_new(connection, received())
        assert inbox.forget(connection, now - timedelta(hours=1)) == 0
        assert inbox.forget(connection, now + timedelta(hours=1)) == 1
        assert inbox.is_new(connection, received())
        with pytest.raises(InvalidUse, match="time zone"):
            inbox.forget(connection, datetime(2026, 1, 1))


def plain(session: Any, message: ReceivedMessage) -> object:
    """Have the effect, and say later the first time."""
    session.execute(insert(BILLS).values(number=message.body.decode()))
    return ConsumeResult.LATER if not message.reconsume_times else None


def test_what_is_to_come_again_has_no_effects(inbox: Inbox, engine: Engine) -> None:
    """Neither what says so, nor what raises."""

    def fails(session: Any, message: ReceivedMessage) -> None:
        plain(session, message)
        raise ValueError("not today")

    assert inbox.once(engine)(plain)(received()) is ConsumeResult.LATER
    with pytest.raises(ValueError, match="not today"):
        inbox.once(sessionmaker(engine))(fails)(received())
    assert bills(engine) == 0


async def test_async_effects_are_awaited(
    inbox: Inbox, engine: Engine, async_engine: AsyncEngine
) -> None:
    """In the transaction of an async engine, or an async session."""

    async def effects(session: Any, message: ReceivedMessage) -> object:
        await session.execute(insert(BILLS).values(number=message.body.decode()))
        return Later(delay_level=3) if message.body == b"8" else None

    handle = inbox.once(async_sessionmaker(async_engine))(effects)
    assert handle.__name__ == "effects"
    for _ in range(2):
        assert await handle(received()) is None
    assert await inbox.once(async_engine)(effects)(received()) is None
    assert bills(engine) == 1
    async with async_engine.begin() as connection:
        assert isinstance(connection, AsyncConnection)
        assert not await inbox.is_new_async(connection, received())
    await async_engine.dispose()


def test_what_effects_answer_is_told_the_consumer(inbox: Inbox, engine: Engine) -> None:
    """It says what `return False` means; the effects have happened, and do once."""

    def effects(session: Any, message: ReceivedMessage) -> object:
        session.execute(insert(BILLS).values(number="7"))
        return False

    handle = inbox.once(engine)(effects)
    assert handle(received()) is False
    assert handle(received()) is None
    assert bills(engine) == 1


async def test_what_async_effects_answer_is_told_the_consumer(
    inbox: Inbox, engine: Engine, async_engine: AsyncEngine
) -> None:
    """The same of them."""

    async def effects(session: Any, message: ReceivedMessage) -> object:
        await session.execute(insert(BILLS).values(number="7"))
        return False

    handle = inbox.once(async_engine)(effects)
    assert await handle(received()) is False
    assert await handle(received()) is None
    assert bills(engine) == 1
    await async_engine.dispose()


def test_what_only_looks_plain_has_no_effects_and_is_no_success(
    inbox: Inbox, engine: Engine
) -> None:
    """The message is new still."""

    async def asynchronous(session: Any, message: ReceivedMessage) -> None: ...

    handle = inbox.once(engine)(lambda session, message: asynchronous(session, message))
    for _ in range(2):
        with pytest.raises(InvalidUse, match="nobody awaits"):
            handle(received())


def test_what_begins_no_transactions_is_refused(inbox: Inbox, engine: Engine) -> None:
    """A session has one, and a scoped one gives none."""
    for wrong in (Session(engine), scoped_session(sessionmaker(engine)), "sqlite://", None):
        with pytest.raises(InvalidUse, match="no engine and no maker of sessions"):
            inbox.once(wrong)(plain)  # type: ignore[arg-type]


def test_what_a_user_wrote_before_does_not_pass_for_the_message(
    inbox: Inbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a savepoint asks: an error of what the session had not written yet is an error."""
    monkeypatch.setattr(module, "_TELLING", {})

    class Base(DeclarativeBase):
        pass

    class Bill(Base):
        __tablename__ = "numbered"
        number: Mapped[int] = mapped_column(primary_key=True)

    Base.metadata.create_all(engine)
    with sessionmaker(engine).begin() as session:
        session.add(Bill(number=1))
    with Session(engine) as session:
        session.add(Bill(number=1))
        with pytest.raises(IntegrityError):
            inbox.is_new(session, received())


def test_effects_are_of_the_databases_kind(
    inbox: Inbox, engine: Engine, async_engine: AsyncEngine
) -> None:
    """A coroutine that nobody awaits would have none."""

    async def asynchronous(session: Any, message: ReceivedMessage) -> None: ...

    with pytest.raises(InvalidUse, match="must be a plain function"):
        inbox.once(engine)(asynchronous)
    with pytest.raises(InvalidUse, match="must be an async function"):
        inbox.once(async_engine)(plain)


async def test_a_consumer_has_effects_once(
    inbox: Inbox, engine: Engine, cluster: ClusterThread
) -> None:
    """Though a message is sent twice under one id, and fails the first time."""
    calls: list[int] = []

    @inbox.once(engine)
    def bill(session: Any, message: ReceivedMessage) -> Later | None:
        calls.append(message.reconsume_times)
        plain(session, message)
        return Later(delay_level=1) if not message.reconsume_times else None

    consumer = PushConsumer("billing", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("orders", bill)
    cluster.create_topic("orders", 1)
    async with Producer(namesrv=cluster.namesrv_addr) as producer, consumer:
        await producer.send(Message("orders", b"1"))
        await until(lambda: consumer.statistics().handlers.succeeded)
        assert calls == [0, 1]
    assert bills(engine) == 1
