"""The recipe of client/README.md: an order and its message are one, wherever its process dies."""

import asyncio
import re
import runpy
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.fake_transactions import ask, ends, halves
from support.waiting import until

from aerobee.client import TransactionProducer, TransactionSettings
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message.record import Record

README: Final = Path(__file__).parents[4] / "client" / "README.md"
COMMIT, ROLLBACK = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK

DYING: Final = """
import asyncio, os, runpy, signal, sys

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_later(*_):
    die()

import aerobee.client
producer, half = aerobee.client.TransactionProducer, aerobee.client.HalfMessage
place = sys.argv[1]
if place == "before the commit":
    half.committing = die
elif place == "before the end":
    producer._end = die_later
asyncio.run(runpy.run_path("recipe.py")["main"]())
"""
"""Runs the recipe in a process that kills itself at a place."""


def recipe(folder: Path, namesrv: str) -> Path:
    """Write the program as it stands in the README, for this nameserver."""
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = [each for each in programs if "class Outbox" in each]
    path = folder / "recipe.py"
    path.write_text(found.replace("127.0.0.1:9876", namesrv))
    return path


def definitions(folder: Path, namesrv: str) -> dict[str, Any]:
    """Return what the program defines, without running it."""
    return runpy.run_path(str(recipe(folder, namesrv)))


async def run_and_die(place: str, namesrv: str, folder: Path) -> None:
    """Run the recipe until it dies."""
    recipe(folder, namesrv)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DYING, place, cwd=folder, stderr=-2, stdout=-1
    )
    async with asyncio.timeout(30):
        output, _ = await child.communicate()
    assert child.returncode == -signal.SIGKILL, output.decode()


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the database that the recipe has made."""
    path = folder / "orders.db"
    assert path.exists()
    return sqlite3.connect(path)


def only_half(cluster: FakeCluster) -> tuple[FakeBroker, Record]:
    """Return the one half message, and its broker."""
    ((broker, record),) = [
        (broker, record) for broker in cluster.brokers for record in halves(broker, "orders")
    ]
    return broker, record


@pytest.mark.parametrize(
    ("place", "expected", "orders"),
    [("before the commit", ROLLBACK, 0), ("before the end", COMMIT, 1)],
)
async def test_the_next_life_answers_for_the_last(
    cluster: FakeCluster, tmp_path: Path, place: str, expected: int, orders: int
) -> None:
    """Killed between the rows and their commit, or between the commit and the word to the broker.

    The broker heard nothing; who starts next is asked, and says what the database says, as often
    as it is asked.
    """
    await run_and_die(place, cluster.namesrv, tmp_path)
    broker, record = only_half(cluster)
    assert not ends(broker)
    database = open_database(tmp_path)
    async with TransactionProducer(
        "orders-placing",
        namesrv=cluster.namesrv,
        listener=definitions(tmp_path, cluster.namesrv)["Outbox"](database),
        settings=TransactionSettings(topics=("orders",)),
    ):
        for times in (1, 2):
            ask(broker, record)
            await until(lambda times=times: len(ends(broker)) == times)  # type: ignore[misc]
    assert {end.commit_or_rollback for end in ends(broker)} == {expected}
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
