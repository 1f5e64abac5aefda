"""A child that consumes and writes into SQLite: `consuming_child.py KIND DATABASE NAMESRV`."""

import asyncio
import sys
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, event, insert
from sqlalchemy.ext.asyncio import create_async_engine

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.integrations.sqlalchemy import Inbox, Offsets

METADATA = MetaData()
EFFECTS = Table(
    "effects",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("body", Text, nullable=False),  # not unique: what is done twice is there twice
)
CLIENT = ClientSettings(takeover_delay_ms=0)


def effect(message: ReceivedMessage) -> Any:
    """Return what a message does."""
    return insert(EFFECTS).values(body=message.body.decode())


async def by_inbox(namesrv: str, database: Any) -> None:
    """Handle one message after the other, each noted by its id."""
    inbox = Inbox("effects", METADATA)
    consumer = PushConsumer(
        "effects", namesrv=namesrv, client=CLIENT, consume_from=ConsumeFrom.FIRST
    )

    @inbox.once(database)
    async def handle(session: Any, message: ReceivedMessage) -> None:
        await session.execute(effect(message))

    consumer.subscribe("orders", handle)
    await consumer.run()


async def by_offsets(namesrv: str, database: Any) -> None:
    """Consume batches, with the offset behind them."""
    offsets = Offsets(METADATA)
    settings = LitePullSettings(auto_commit_interval_ms=1000)
    consumer = LitePullConsumer(
        "effects", namesrv=namesrv, client=CLIENT, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    consumer.subscribe("orders")

    def handle(session: Any, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            session.execute(effect(message))

    await consumer.run(lambda running: offsets.consume(running, database, handle))


def patient(engine: Any) -> Any:
    """Let SQLite's readers go on while somebody writes, and writers wait for each other."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA busy_timeout=20000")

    return engine


def main() -> None:
    """Serve until killed."""
    kind, file, namesrv = sys.argv[1:]
    engine = patient(create_engine(f"sqlite:///{file}"))
    if kind == "inbox":
        database = create_async_engine(f"sqlite+aiosqlite:///{file}")
        patient(database.sync_engine)
        asyncio.run(by_inbox(namesrv, database))
    else:
        asyncio.run(by_offsets(namesrv, engine))


if __name__ == "__main__":
    main()
