"""Tasks that write to brokers which behave oddly: what is stored then, and what is said."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from support.lake.sink_writes import once, rows, write
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster

from aerobee.client.errors import InvalidMessage
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.headers.send import SendMessageReply
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Reply
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.cluster import LoopThread
from aerobee.spark.sinks.options import parse_sink_options
from aerobee.spark.sinks.plan import SinkPlan, plan_write

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE


@contextmanager
def fakes(count: int) -> Iterator[list[FakeBroker]]:
    """Brokers with a topic `orders` of one queue each."""
    cluster = FakeCluster(count)
    with LoopThread("test") as loop:
        loop.run(cluster.__aenter__())
        cluster.create("orders", 1)
        yield cluster.brokers
        loop.run(cluster.__aexit__())


def fake_plan(brokers: list[FakeBroker], patience_ms: int = 5000) -> SinkPlan:
    """The plan of a write to them."""
    given = {"namesrv": brokers[0].cluster.namesrv, "topic": "orders"}
    plan = plan_write(parse_sink_options(given, stream=False))
    return replace(plan, address=replace(plan.address, patience_ms=patience_ms))


def fake_bodies(brokers: list[FakeBroker]) -> Counter[object]:
    """How often each body is stored."""
    return Counter(each.body for broker in brokers for each in broker.log["orders", 0])


def carried_out_but_lost(connection: Connection, command: Command) -> None:
    """Store the messages, and close the connection in place of an answer."""
    broker = next(each for each in _fakes if connection in each.connections)
    broker._dispatch(connection, command)
    connection.abort("as the test wants")


_fakes: list[FakeBroker] = []


@pytest.mark.parametrize("count", [1, 500])
def test_request_without_an_answer_is_looked_up(count: int) -> None:
    """It was carried out: nothing is sent twice."""
    with fakes(1) as brokers:
        _fakes[:] = brokers
        plan = fake_plan(brokers)
        brokers[0].script[SEND if count == 1 else BATCH].append(carried_out_but_lost)
        assert write(plan, rows(count)).found == count
        assert fake_bodies(brokers) == once(count)


def test_lost_answer_behind_a_delayed_message() -> None:
    """A delayed message's offset is that of the queue it waits in, and says nothing of its own."""
    with fakes(1) as brokers:
        _fakes[:] = brokers
        plan = fake_plan(brokers)
        waits = encode_header(SendMessageReply(msg_id="", queue_id=0, queue_offset=1000))
        brokers[0].script[SEND].extend([lambda *_: Reply(ext=waits), carried_out_but_lost])
        assert write(plan, rows(2, delay_level=[1, None])).found == 1
        assert fake_bodies(brokers) == Counter([b"row 1"])


def test_request_that_is_under_way_when_a_task_fails() -> None:
    """The next attempt begins when its outcome is known, and finds what it has stored."""
    with fakes(1) as brokers:

        def late(connection: Connection, command: Command) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.3, brokers[0]._dispatch, connection, command)

        plan = fake_plan(brokers)
        brokers[0].script[BATCH].append(late)
        bad = pa.RecordBatch.from_pydict({"body": pa.array([None], pa.binary())})
        with pytest.raises(InvalidMessage, match="row 1001"):
            write(plan, rows(1000), bad)
        assert write(plan, rows(1200), attempt=1).found == 1000
        assert fake_bodies(brokers) == once(1200)


def test_queue_that_cannot_be_searched_fails_the_task() -> None:
    """It may hold what was written before: a topic can have fewer queues to read than to write."""
    with fakes(1) as brokers:
        _fakes[:] = brokers
        plan = fake_plan(brokers)
        brokers[0].script[BATCH].append(carried_out_but_lost)
        brokers[0].refuse(RequestCode.PULL_MESSAGE, ResponseCode.INVALID_PARAMETER)
        with pytest.raises(ClusterUnreachable, match="INVALID_PARAMETER"):
            write(plan, rows(500))
        assert fake_bodies(brokers) == once(500)


def test_broker_comes_back_with_another_address() -> None:
    """A lost answer is looked up there."""
    with fakes(2) as brokers:
        moving = brokers[1]
        moves: list[asyncio.Task[None]] = []

        async def move() -> None:
            await moving.stop()
            await moving.start()

        def moved(connection: Connection, command: Command) -> None:
            moving._dispatch(connection, command)
            connection.abort("as the test wants")
            moves.append(asyncio.ensure_future(move()))

        plan = fake_plan(brokers)
        moving.script[BATCH].append(moved)
        assert write(plan, rows(4000)).found == 1000
        assert fake_bodies(brokers) == once(4000)


def test_request_that_was_lost_is_sent_again() -> None:
    """It was not carried out: nothing is missing."""
    with fakes(1) as brokers:
        plan = fake_plan(brokers)
        brokers[0].script[BATCH].append(lambda connection, _: connection.abort("as the test wants"))
        brokers[0].refuse(BATCH, ResponseCode.SYSTEM_ERROR)
        assert write(plan, rows(300)).sent == 300
        assert fake_bodies(brokers) == once(300)


def test_busy_broker_is_passed_by() -> None:
    """What it refuses goes to another one."""
    with fakes(2) as brokers:
        plan = fake_plan(brokers)
        for broker in brokers[:1]:
            broker.refuse(BATCH, ResponseCode.SYSTEM_BUSY, times=100)
        assert write(plan, rows(4000)).sent == 4000
        assert fake_bodies(brokers) == once(4000)


def test_broker_that_stays_busy_fails_the_task() -> None:
    """With what was tried, and for how long."""
    with fakes(1) as brokers:
        plan = fake_plan(brokers, patience_ms=200)
        brokers[0].refuse(BATCH, ResponseCode.SYSTEM_BUSY, times=1000)
        with pytest.raises(ClusterUnreachable, match=r"messages to .*orders.*SYSTEM_BUSY"):
            write(plan, rows(100))
        brokers[0].refuse(SEND, ResponseCode.NO_PERMISSION)
        with pytest.raises(ClusterUnreachable, match="NO_PERMISSION"):
            write(plan, rows(1))


def test_many_tasks_under_random_failures() -> None:
    """Some requests are lost, before or after they were carried out; every row is stored once."""
    chance = random.Random(11)
    with fakes(2) as brokers:
        _fakes[:] = brokers
        plan = fake_plan(brokers, patience_ms=20_000)
        for broker in brokers:
            for _ in range(12):
                ways: list[Callable[[Connection, Command], None]] = [
                    carried_out_but_lost,
                    lambda connection, _: connection.abort("as the test wants"),
                    broker._dispatch,
                ]
                broker.script[BATCH].append(chance.choice(ways))

        async def all_tasks() -> None:
            work = [
                asyncio.to_thread(write, plan, rows(2500, 2500 * part), partition=part)
                for part in range(4)
            ]
            await asyncio.gather(*work)

        asyncio.run(all_tasks())
        assert fake_bodies(brokers) == once(10_000)
