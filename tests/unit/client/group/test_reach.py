"""What a consumer says, and does, when it reaches nobody: once, and when it is over."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.silent_server import SilentServer
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PushConsumer,
    PushSettings,
    Unavailable,
)
from aerobee.client.cluster.outages import Outages
from aerobee.client.errors import RouteMissing
from aerobee.client.group.offsets import GroupOffsets
from aerobee.client.group.reach import Reach
from aerobee.client.group.shares import RouteAwaited

NOWHERE = "127.0.0.1:1"
QUICK = ClientSettings(rebalance_gap_ms=10)
PATIENT = ClientSettings(api_timeout_ms=60_000)


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    """Let the log have what is told when it is over, too."""
    caplog.set_level(logging.INFO, "aerobee.client")


def member(namesrv: str, *topics: str) -> PushConsumer:
    """Return a consumer that tries a hundred times a second."""
    consumer = PushConsumer("g", namesrv=namesrv, client=QUICK)
    for topic in topics:
        consumer.subscribe(topic, lambda message: None)
    return consumer


def told(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    """Return the lines that begin with one of these words."""
    lines = [f"{each.levelname} {each.getMessage()}" for each in caplog.records]
    return [line for line in lines if line.split(" ", 1)[1].startswith(words)]


async def test_a_nameserver_that_is_not_there_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many topics and rounds there are."""
    consumer = member(NOWHERE, "t", "more", "another")
    async with consumer:
        assert consumer.ownership is not None
        await until(lambda: len(told(caplog, "consuming")) == 1)
        await asyncio.sleep(0.3)  # some thirty rounds
    (line,) = told(caplog, "consuming", "finding")
    assert line.startswith("WARNING consuming in group 'g' fails: no nameserver of 127.0.0.1:1 ")
    assert "refused" in line
    assert "share unknown" not in caplog.text


async def test_a_topic_that_comes_later_is_waited_for_in_two_lines(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It is normal at a first start, and no failure to start even where that may fail."""
    consumer = member(cluster.namesrv, "later")
    await consumer.start(timeout_ms=5_000)
    await until(lambda: bool(told(caplog, "finding")))
    await asyncio.sleep(0.2)
    cluster.create("later", 1)
    await until(lambda: bool(consumer.queues()))
    await consumer.close()
    begins, ends = told(caplog, "finding", "consuming")
    assert begins.startswith("WARNING finding topic 'later' for group 'g' fails: no route to topic")
    assert ends.startswith("INFO finding topic 'later' for group 'g' works again, after ")
    assert "share unknown" not in caplog.text


async def test_a_broker_that_goes_and_comes_is_told_twice(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever of eight queues is tried meanwhile: pulls, commits, rounds."""
    gone = cluster.brokers.pop()
    await gone.stop()
    cluster.create("t", 8)
    consumer = PushConsumer(
        "g", namesrv=cluster.namesrv, client=ClientSettings(offsets_interval_ms=10)
    )
    consumer.subscribe("t", lambda message: None)
    async with consumer:
        await until(lambda: len(consumer.queues()) == 8)
        broker = cluster.brokers[0]
        port = broker.server.port
        await broker.stop()
        await until(lambda: bool(told(caplog, "consuming from")))
        await asyncio.sleep(0.3)
        await broker.start(port)
        await until(lambda: len(told(caplog, "consuming from")) == 2)
    begins, ends = told(caplog, "consuming", "pulling", "commit", "queue not taken")
    assert begins.startswith("WARNING consuming from broker-a in group 'g' fails: ")
    assert ends.startswith("INFO consuming from broker-a in group 'g' works again, after ")


def push(namesrv: Sequence[str]) -> PushConsumer:
    """Return a push consumer that is to fail after 200 ms."""
    settings = PushSettings(start_timeout_ms=200)
    consumer = PushConsumer("g", namesrv=namesrv, client=PATIENT, settings=settings)
    consumer.subscribe("t", lambda message: None)
    return consumer


def lite(namesrv: Sequence[str]) -> LitePullConsumer:
    """Return a lite pull consumer that is to fail after 200 ms."""
    settings = LitePullSettings(start_timeout_ms=200)
    consumer = LitePullConsumer("g", namesrv=namesrv, client=PATIENT, settings=settings)
    consumer.subscribe("t")
    return consumer


Made = Callable[[Sequence[str]], PushConsumer | LitePullConsumer]


@pytest.mark.parametrize("make", [push, lite])
async def test_a_start_fails_when_asked_to(make: Made) -> None:
    """With the reason, and closed; `async with` and `run` do as the settings say."""
    consumer = make([NOWHERE])
    with pytest.raises(Unavailable, match=r"group 'g' cannot consume after 200 ms: .*refused"):
        async with consumer:
            pass
    with pytest.raises(Unavailable, match="after 100 ms"):
        await consumer.start(timeout_ms=100)
    with pytest.raises(InvalidUse, match="timeout_ms=0"):
        await consumer.start(timeout_ms=0)
    assert not consumer.client_id


@pytest.mark.parametrize("make", [push, lite])
async def test_a_start_fails_in_time_where_nobody_says_anything(make: Made) -> None:
    """A nameserver that takes connections and no more costs no more than was given."""
    async with SilentServer() as silent:
        consumer = make([silent.address])
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="no answer of the cluster of 127"):
            await consumer.start()
        assert asyncio.get_running_loop().time() - began_s < 20  # a request: a minute
    assert not consumer.client_id


async def test_a_broker_that_is_not_there_fails_a_start(cluster: FakeCluster) -> None:
    """Though the nameserver names it."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        await broker.stop()
    with pytest.raises(Unavailable, match=r"cannot consume after 200 ms: .*refused"):
        await push([cluster.namesrv]).start()


def test_a_topic_that_is_unsubscribed_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is told of it any more, nor waited for."""
    reach = Reach("g", Outages(logging.getLogger("aerobee.client.test")))
    reach.not_shared("t", RouteMissing("t", NOWHERE), owned=False)
    reach.not_shared("u", RouteAwaited("u"), owned=False)
    reach.judge(["t", "u"])
    assert set(reach.problems) == {"t", "u"}
    reach.judge([])
    assert not reach.problems
    assert len(told(caplog, "finding")) == 1


async def test_commits_that_fail_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of many queues, again and again."""

    class Nobody:
        """A broker that is away."""

        async def call_broker(self, *_: object) -> None:
            """Fail."""
            raise Unavailable("refused")

    offsets = GroupOffsets(Nobody(), "g", 100)  # type: ignore[arg-type]
    queues = {MessageQueue("t", "broker-a", at): at for at in range(8)}
    for _ in range(5):
        await offsets.commit_all(queues)
    assert told(caplog, "") == ["WARNING consuming from broker-a in group 'g' fails: refused"]
