"""kill -9 of programs that consume into a database, and send from it: nothing twice or lost."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from support.servers import consuming_child as consuming
from support.servers import relaying_child as relaying
from support.waiting import until

from aerobee.client import ConsumeFrom, LitePullConsumer, Message, Producer
from aerobee.client.cluster.directory import Cluster
from aerobee.integrations.sqlalchemy import Inbox, Offsets, Outbox
from aerobee.testing import ClusterThread

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
BATCH = 200  # messages sent in each round, at once
QUEUES = 4


class Child:
    """A program that is killed, and begins anew on the same database."""

    def __init__(self, program: Any, kind: str, database: Path, namesrv: str) -> None:
        self._command = [sys.executable, str(program.__file__), kind, str(database), namesrv]
        tests = Path(__file__).parents[1]
        self._environment = os.environ | {"PYTHONPATH": str(tests)}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin."""
        assert self._child is None or self._child.poll() is not None
        self._child = subprocess.Popen(self._command, env=self._environment)

    def end(self, number: int = signal.SIGKILL) -> int:
        """End it by a signal, and wait for that."""
        assert self._child is not None
        assert self._child.poll() is None, "it has ended by itself"
        self._child.send_signal(number)
        return self._child.wait(30)


def seeded() -> random.Random:
    """Return dice that a failure names."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterThread]:
    """Serve, with a topic that stores a retry once."""
    with ClusterThread(root=tmp_path / "cluster") as served:

        async def make() -> None:
            async with Cluster(served.namesrv_addr) as reached:
                attributes = {"aerobee.dedup.seconds": "3000"}
                await reached.create_topic("orders", QUEUES, attributes=attributes)

        served.call(make())
        yield served


def counter(database: Path, table: str = "effects") -> Callable[[], int]:
    """Return what counts the rows of a table."""

    def count() -> int:
        with sqlite3.connect(database, timeout=20) as connection:
            (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        connection.close()
        return int(rows)

    return count


@pytest.mark.parametrize("kind", ["inbox", "offsets"])
async def test_each_message_has_its_effects_once(
    tmp_path: Path, cluster: ClusterThread, kind: str
) -> None:
    """Wherever the program was when it was killed, also behind its commit, before the broker's."""
    dice, database, sent = seeded(), tmp_path / "effects.db", 0
    Inbox("effects", consuming.METADATA)
    Offsets(consuming.METADATA)
    consuming.METADATA.create_all(create_engine(f"sqlite:///{database}"))
    child, rows = Child(consuming, kind, database, cluster.namesrv_addr), counter(database)
    async with Producer(namesrv=cluster.namesrv_addr) as producer:
        for _ in range(ROUNDS):
            before = rows()
            messages = [Message("orders", b"%d" % (sent + at)) for at in range(BATCH)]
            await asyncio.gather(*(producer.send(each) for each in messages))
            sent += BATCH
            child.start()
            enough = min(sent, before + dice.randrange(BATCH))
            await until(lambda enough=enough: rows() >= enough, 60)  # type: ignore[misc]
            await asyncio.sleep(dice.uniform(0, 0.05))
            child.end()
        child.start()
        await until(lambda: rows() >= sent, 60, "that nothing is lost")
        await producer.send(Message("orders", b"%d" % sent))  # it is sure to listen to signals
        await until(lambda: rows() > sent, 60)
    assert child.end(signal.SIGTERM) == 0
    with sqlite3.connect(database) as connection:
        found = Counter(body for (body,) in connection.execute("SELECT body FROM effects"))
    connection.close()
    assert found == Counter(str(number) for number in range(sent + 1))


async def test_each_row_is_sent_once(tmp_path: Path, cluster: ClusterThread) -> None:
    """The writer and the relay are killed; of what was undone nothing is sent, keys keep order."""
    dice, database = seeded(), tmp_path / "orders.db"
    Outbox(consuming.METADATA)
    consuming.METADATA.create_all(create_engine(f"sqlite:///{database}"))
    writer = Child(relaying, "write", database, cluster.namesrv_addr)
    relay = Child(relaying, "relay", database, cluster.namesrv_addr)
    rows, waiting = counter(database), counter(database, "aerobee_outbox")
    for _ in range(ROUNDS):
        before = rows()
        writer.start()
        relay.start()
        await until(lambda before=before: rows() >= before + 60, 60)  # type: ignore[misc]
        await until(lambda: rows() - waiting() > 0, 60)
        await asyncio.sleep(dice.uniform(0, 0.3))
        for child in dice.sample([writer, relay], 2):
            child.end()
            await asyncio.sleep(dice.uniform(0, 0.02))
    relay.start()
    outbox = Outbox(consuming.METADATA)
    with create_engine(f"sqlite:///{database}", connect_args={"timeout": 20}).begin() as session:
        session.execute(consuming.EFFECTS.insert().values(body=str(rows())))
        outbox.add(session, Message("orders", b"%d" % rows()))
    await until(lambda: not waiting(), 120, "that all is sent")
    assert relay.end(signal.SIGTERM) == 0
    committed = rows()
    got = await received(cluster.namesrv_addr, committed)
    assert Counter(body for body, _ in got) == Counter(str(number) for number in range(committed))
    for key in range(relaying.KEYS):
        mine = [(int(body), queue) for body, queue in got if int(body) < committed - 1]
        mine = [each for each in mine if each[0] % 2 and each[0] % relaying.KEYS == key]
        assert len({queue for _, queue in mine}) == 1
        assert mine == sorted(mine)


async def received(namesrv: str, count: int) -> list[tuple[str, int]]:
    """Return all bodies with their queues, those of a queue in order; more than `count`, too."""
    consumer = LitePullConsumer("all", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("orders")
    got: list[tuple[str, int]] = []
    async with consumer:
        while batch := await consumer.poll(2_000 if len(got) >= count else 30_000):
            got += [(each.body.decode(), each.queue.queue_id) for each in batch]
    return got
