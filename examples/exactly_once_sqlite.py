"""Exactly once into SQLite: effects and offsets commit in one transaction, kill it where you like.

Run it beside a nameserver and a broker: `python examples/exactly_once_sqlite.py send 1000`, then
`... book bank.db` in as many terminals as you like, killed (-9) and started again at any time.
"""

import asyncio
import os
import sqlite3
import sys

from aerobee.client import ConsumeFrom, LitePullConsumer, Message, Producer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
SCHEMA = """
CREATE TABLE IF NOT EXISTS offsets (queue TEXT PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS accounts (owner TEXT PRIMARY KEY, cents INTEGER NOT NULL);
"""
ADVANCE = "INSERT INTO offsets VALUES (?1, ?2) ON CONFLICT DO UPDATE SET next = ?2"
ADD = "INSERT INTO accounts VALUES (:owner,:cents) ON CONFLICT DO UPDATE SET cents = cents + :cents"


def book(database: sqlite3.Connection, batch: list[ReceivedMessage]) -> int:
    """Book what this database has not seen of one queue's messages; all of it, or nothing."""
    queue = f"{batch[0].queue.topic}/{batch[0].queue.broker_name}/{batch[0].queue.queue_id}"
    with database:
        database.execute("BEGIN IMMEDIATE")  # other processes wait: they may have the same batch
        row = database.execute("SELECT next FROM offsets WHERE queue = ?", (queue,)).fetchone()
        fresh = [message for message in batch if not row or message.queue_offset >= row[0]]
        database.executemany(ADD, [message.json() for message in fresh])
        if fresh:
            database.execute(ADVANCE, (queue, fresh[-1].queue_offset + 1))
    return len(fresh)


async def work(consumer: LitePullConsumer) -> None:
    """Book batch after batch; the broker hears of one only when it is in the database."""
    database = sqlite3.connect(sys.argv[2], timeout=30, isolation_level=None)
    database.executescript(SCHEMA)
    print(f"books into {sys.argv[2]}", flush=True)
    while True:  # until `run` ends it, where the next batch is asked for
        if batch := await consumer.poll():
            print(f"booked {book(database, batch)} of {len(batch)}", flush=True)


async def main() -> None:
    """Send so many transfers, or book until Ctrl-C."""
    if sys.argv[1] == "send":
        async with Producer(namesrv=NAMESRV) as producer:
            for number in range(int(sys.argv[2])):
                transfer = {"owner": f"owner-{number % 5}", "cents": number}
                await producer.send(Message("transfers", json=transfer))
        return
    bank = LitePullConsumer("bank", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    bank.subscribe("transfers")
    await bank.run(work)


asyncio.run(main())
