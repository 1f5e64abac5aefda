"""A child that writes rows with messages, or relays them: `relaying_child.py KIND FILE NAMESRV`."""

import asyncio
import itertools
import sys
from typing import Any

from sqlalchemy import create_engine, func, insert, select

from aerobee.client import Message
from aerobee.integrations.sqlalchemy import Outbox, OutboxProducer, OutboxRelay, RelaySettings
from support.servers.consuming_child import EFFECTS, METADATA, patient

KEYS = 5


def write(engine: Any, outbox: Outbox) -> None:
    """Write orders with their messages, now and then one that is undone, until killed."""
    with engine.begin() as session:
        first = session.execute(select(func.count()).select_from(EFFECTS)).scalar_one()
    for number in itertools.count(first):
        connection = engine.connect()
        transaction = connection.begin()
        connection.execute(insert(EFFECTS).values(body=str(number)))
        key = f"k{number % KEYS}" if number % 2 else None
        outbox.add(connection, Message("orders", b"%d" % number), key=key)
        transaction.commit()
        if number % 7 == 0:
            transaction = connection.begin()
            connection.execute(insert(EFFECTS).values(body=f"undone {number}"))
            outbox.add(connection, Message("orders", b"undone %d" % number))
            transaction.rollback()
        connection.close()


def main() -> None:
    """Do it until killed, or asked to end."""
    kind, file, namesrv = sys.argv[1:]
    engine = patient(create_engine(f"sqlite:///{file}"))
    outbox = Outbox(METADATA)
    METADATA.create_all(engine)
    if kind == "write":
        write(engine, outbox)
    settings = RelaySettings(claim_ms=1_000, interval_ms=20)
    relay = OutboxRelay(outbox, engine, OutboxProducer(namesrv=namesrv), settings)
    asyncio.run(relay.run())


if __name__ == "__main__":
    main()
