"""Slow and failing brokers are avoided for a while, as Java's producer does."""

import asyncio
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    LatencySettings,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
)
from aerobee.client.sending import latency
from aerobee.client.sending.latency import LatencyTolerance, TolerantTurns
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import CallTimedOut

QUEUES = [MessageQueue("t", name, number) for name in ("a", "b", "c") for number in (0, 1)]


class Brokers:
    """A tolerance, its clock, and which brokers it lets a producer use."""

    def __init__(self, *, detector: bool = False) -> None:
        self.now_s = 1_000.0
        settings = LatencySettings(enabled=True, detector=detector)
        self.tolerance = LatencyTolerance(settings, lambda: self.now_s)
        self.turns = TolerantTurns(self.tolerance, 0)

    def used(self, last: str | None = None, rounds: int = 12) -> set[str]:
        """Return whom the next sends go to."""
        picked = [self.turns.pick(QUEUES, last) for _ in range(rounds)]
        return {queue.broker_name for queue in picked}


@pytest.mark.parametrize(
    ("took_ms", "avoided_ms"),
    [  # latencyMax and notAvailableDuration of Java's client
        (0, 0),
        (49, 0),
        (50, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
        (900_000, 30_000),
    ],
)
def test_the_slower_the_longer(took_ms: int, avoided_ms: int) -> None:
    """A broker comes back when its time is over, to the millisecond."""
    brokers = Brokers()
    brokers.tolerance.succeeded("b", took_ms / 1000)
    if avoided_ms:
        brokers.now_s += (avoided_ms - 1) / 1000
        assert brokers.used() == {"a", "c"}
        brokers.now_s += 0.001
    assert brokers.used() == {"a", "b", "c"}


def test_a_quick_answer_does_not_shorten_what_was_begun() -> None:
    """The time that a slow one has cost runs out by itself (FaultItem)."""
    brokers = Brokers()
    brokers.tolerance.succeeded("b", 3.1)
    brokers.tolerance.succeeded("b", 0.001)
    assert brokers.used() == {"a", "c"}
    brokers.tolerance.succeeded("b", 0.6)
    brokers.now_s += 5.999
    assert brokers.used() == {"a", "c"}


@pytest.mark.parametrize(
    "error", [CallTimedOut("silent"), BrokerRefused(ResponseCode.SYSTEM_BUSY, "busy", "b:1")]
)
def test_a_failure_counts_as_ten_seconds(error: Exception) -> None:
    """Whether the broker was silent or has refused."""
    brokers = Brokers()
    brokers.tolerance.failed("b", error)
    brokers.now_s += 9.999
    assert brokers.used() == {"a", "c"}
    brokers.now_s += 0.001
    assert brokers.used() == {"a", "b", "c"}


def test_one_that_is_reachable_is_better_than_any() -> None:
    """Where none is available; and the last one is taken only where there is no other."""
    brokers = Brokers()
    for name in ("a", "b", "c"):
        brokers.tolerance.succeeded(name, 20)
    assert brokers.used() == {"a", "b", "c"}
    brokers.tolerance.failed("a", BrokerRefused(ResponseCode.SYSTEM_BUSY, "busy", "a:1"))
    assert brokers.used() == {"b", "c"}
    assert brokers.used(last="b") == {"c"}
    brokers.tolerance.failed("c", BrokerRefused(ResponseCode.SYSTEM_BUSY, "busy", "c:1"))
    assert brokers.used(last="b") == {"a", "b", "c"}
    brokers.tolerance.succeeded("c", 0.001)
    assert brokers.used(last="b") == {"c"}


def test_only_a_detector_takes_a_silent_broker_for_unreachable() -> None:
    """Nobody else could find out that it is there again."""
    for detector in (False, True):
        brokers = Brokers(detector=detector)
        for name in ("a", "b", "c"):
            brokers.tolerance.succeeded(name, 20)
        brokers.tolerance.failed("a", CallTimedOut("silent"))
        assert brokers.used() == ({"b", "c"} if detector else {"a", "b", "c"})


async def test_a_producer_avoids_a_broker_that_fails(cluster: FakeCluster) -> None:
    """Off by default; on, the broker that refused gets no message for ten seconds."""
    for enabled, expected in ((False, {"broker-a", "broker-b"}), (True, {"broker-a"})):
        topic = f"t{enabled}"
        cluster.create(topic, 2)
        settings = ProducerSettings(latency=LatencySettings(enabled=enabled))
        async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
            cluster.brokers[1].refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY)
            results = [await producer.send(Message(topic, b"x")) for _ in range(12)]
        cluster.brokers[1].script.clear()
        assert {result.queue.broker_name for result in results[4:]} == expected


async def test_a_slow_connection_is_a_slow_broker(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a send waits for counts (DefaultMQProducerImpl.sendDefaultImpl)."""
    cluster.create("t", 1)
    settings = LatencySettings(enabled=True, slow_ms=(40,), avoid_ms=(60_000,))
    async with Producer(
        namesrv=cluster.namesrv, settings=ProducerSettings(latency=settings)
    ) as producer:
        connect = producer._connect

        async def connect_slowly(*arguments: Any) -> Any:
            await asyncio.sleep(0.06)
            return await connect(*arguments)

        monkeypatch.setattr(producer, "_connect", connect_slowly)
        monkeypatch.setattr(producer, "_open", lambda _: None)
        sent = await producer.send(Message("t", b"x"))
        tolerance = producer._choice.tolerance
        assert tolerance is not None and not tolerance.is_available(sent.queue.broker_name)


async def test_the_detector_asks_until_the_broker_answers(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a queue of a topic ends; a broker that refuses has not answered."""
    monkeypatch.setattr(latency, "ROUND_MS", 5)
    cluster.create("t", 1)
    two = cluster.brokers[1]
    settings = ProducerSettings(
        latency=LatencySettings(enabled=True, detector=True, detect_interval_ms=1)
    )
    producer = Producer(namesrv=cluster.namesrv, settings=settings)
    async with producer:
        pass  # another life: the detector starts with each
    async with producer:
        tolerance = producer._choice.tolerance
        assert tolerance is not None
        two.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY)
        two.refuse(RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR, times=2)
        for _ in range(3):
            await producer.send(Message("t", b"x"))
        assert not tolerance.is_reachable("broker-b")
        await until(lambda: tolerance.is_reachable("broker-b"))
        asked = two.requests(RequestCode.GET_MAX_OFFSET)
        assert [command.ext["topic"] for command in asked] == ["t"] * 3
        assert not cluster.brokers[0].requests(RequestCode.GET_MAX_OFFSET)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"slow_ms": (1, 2)}, "slow_ms has 2 values, avoid_ms 7"),
        ({"slow_ms": (), "avoid_ms": ()}, "slow_ms has 0 values"),
        ({"slow_ms": (5, 1), "avoid_ms": (0, 0)}, "must rise"),
        ({"slow_ms": (1,), "avoid_ms": (-1,)}, "below 0"),
        ({"detect_interval_ms": 0}, "detect_interval_ms=0"),
        ({"detect_timeout_ms": 0}, "detect_timeout_ms=0"),
    ],
)
def test_settings_that_make_no_sense(values: dict[str, object], why: str) -> None:
    """They are refused by name."""
    with pytest.raises(ValueError, match=why):
        LatencySettings(**values)  # type: ignore[arg-type]
