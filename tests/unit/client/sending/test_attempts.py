"""A broker's restart is no error while time is left, and errors name their cause once."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    Message,
    Producer,
    ProducerSettings,
    RouteMissing,
    SendFailed,
    Unavailable,
)
from aerobee.client.sending.attempts import PAUSE_MAX_S, Pauses
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import ConnectionLost
from aerobee.remoting.net.connection import Connection
from aerobee.testing import EmbeddedCluster

SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and a broker with topic "t"."""
    async with EmbeddedCluster(root=tmp_path) as real:
        await real.create_topic("t", 2)
        yield real


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_brokers_restart_is_no_error(real: EmbeddedCluster, key: str | None) -> None:
    """Sends that meet it wait for it, also those of a chosen queue; none is lost or doubled."""
    async with Producer(namesrv=real.namesrv_addr) as producer:
        await producer.send(Message("t", b"before"), key=key)
        broker = real.brokers.pop()
        port = broker.port
        await broker.stop()
        sending = [
            asyncio.create_task(producer.send(Message("t", b"%d" % at), key=key, timeout_ms=20_000))
            for at in range(20)
        ]
        await asyncio.sleep(0.3)
        assert not any(each.done() for each in sending)
        real.brokers.append(await real._start_broker(0, port))
        results = await asyncio.gather(*sending)
    places = {(each.queue, each.queue_offset) for each in results}
    assert len(places) == 20


async def test_a_producer_that_starts_before_the_broker_waits_for_it(tmp_path: Path) -> None:
    """As in a `docker compose up`: the first send goes through when the broker has registered."""
    async with (
        EmbeddedCluster(root=tmp_path, brokers=0) as real,
        Producer(namesrv=real.namesrv_addr) as producer,
    ):
        sending = asyncio.create_task(producer.send(Message("t", b"x"), timeout_ms=20_000))
        await asyncio.sleep(0.2)
        assert not sending.done()
        real.brokers.append(await real._start_broker(0))
        await sending


async def test_without_any_broker_the_error_says_so(tmp_path: Path) -> None:
    """When the time is up, and not that the topic were to be created."""
    async with (
        EmbeddedCluster(root=tmp_path, brokers=0) as real,
        Producer(namesrv=real.namesrv_addr) as producer,
    ):
        began_s = time.monotonic()
        with pytest.raises(RouteMissing, match="no broker is registered with") as caught:
            await producer.send(Message("t", b"x"), timeout_ms=200)
        assert caught.value.no_broker
        assert time.monotonic() - began_s > 0.1


async def test_a_topic_that_only_is_missing_is_told_at_once(tmp_path: Path) -> None:
    """Waiting makes none, where brokers are there and do not create topics."""
    settings = {"auto_create_topic_enable": False}
    async with (
        EmbeddedCluster(root=tmp_path, broker_settings=settings) as real,
        Producer(namesrv=real.namesrv_addr) as producer,
    ):
        began_s = time.monotonic()
        with pytest.raises(RouteMissing, match="create the topic") as caught:
            await producer.send(Message("t", b"x"), timeout_ms=20_000)
        assert not caught.value.no_broker
        assert time.monotonic() - began_s < 5


async def test_a_broker_that_stays_away_is_an_error_in_time(cluster: FakeCluster) -> None:
    """After the time that was given, with each broker and its reason once."""
    cluster.create("t", 4)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.fetch_queues("t")
        for broker in cluster.brokers:
            await broker.stop()
        began_s = time.monotonic()
        with pytest.raises(SendFailed) as caught:
            await producer.send(Message("t", b"x"), timeout_ms=400)
        took_s = time.monotonic() - began_s
    assert 0.3 < took_s < 5
    text, attempts = str(caught.value), len(caught.value.brokers)
    assert 6 <= attempts <= 24
    assert text.startswith(f"sending to topic 't' failed {attempts} times in ")
    for broker in cluster.brokers:
        assert text.count(f"{broker.name}: {broker.address}: Connection refused") == 1
    assert isinstance(caught.value.__cause__, Unavailable)


async def test_no_retries_is_no_waiting_either(cluster: FakeCluster) -> None:
    """Who wants none has it told at once."""
    cluster.create("t", 4)
    settings = ProducerSettings(retries_max=0)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        await producer.fetch_queues("t")
        for broker in cluster.brokers:
            await broker.stop()
        began_s = time.monotonic()
        with pytest.raises(Unavailable, match=r"Connection refused|closed by the peer"):
            await producer.send(Message("t", b"x"), timeout_ms=20_000)
        assert time.monotonic() - began_s < 5


@pytest.mark.parametrize("restarts", [1, 9])
async def test_a_chosen_queue_is_tried_again_after_a_lost_connection(
    cluster: FakeCluster, restarts: int
) -> None:
    """As often as any other send; its broker may have been started anew."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        queue = (await producer.fetch_queues("t"))[0]
        broker = next(each for each in cluster.brokers if each.name == queue.broker_name)

        def lose(connection: Connection, command: Command) -> None:
            connection.abort("as the test wants")

        broker.script[SEND].extend([lose] * restarts)
        sending = producer.send(Message("t", b"x"), queue=queue)
        if restarts == 1:
            assert (await sending).queue == queue
        else:
            with pytest.raises(ConnectionLost):
                await sending
        assert len(broker.requests(SEND)) == min(restarts, 2) + 1


async def test_the_other_broker_is_tried_at_once_and_the_same_one_later(
    cluster: FakeCluster,
) -> None:
    """A refusal counts: three attempts, with a pause after both have said no."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        broker.refuse(SEND, ResponseCode.SYSTEM_BUSY, times=9)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.fetch_queues("t")
        began_s = time.monotonic()
        with pytest.raises(SendFailed, match=r"SYSTEM_BUSY.*; broker-.*SYSTEM_BUSY") as caught:
            await producer.send(Message("t", b"x"), timeout_ms=60_000)
        assert 0.04 < time.monotonic() - began_s < 20
    assert isinstance(caught.value.__cause__, BrokerRefused)
    one, other, again = caught.value.brokers
    assert one != other
    assert again == one


async def test_sends_that_wait_make_one_connection_a_tick(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them are no storm for a broker that comes back."""
    cluster.create("t", 4)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.fetch_queues("t")
        for broker in cluster.brokers:
            await broker.stop()
        made = 0
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        def counted(*arguments: object, **options: object) -> object:
            nonlocal made
            made += 1
            return connect(*arguments, **options)  # type: ignore[call-overload]

        monkeypatch.setattr(loop, "create_connection", counted)
        sends = (producer.send(Message("t", b"%d" % at), timeout_ms=800) for at in range(1_000))
        results = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(each, SendFailed) for each in results)
    assert made < 250


async def test_pauses_grow_and_end_with_the_time() -> None:
    """Twice as long each time; the last ones share what is left."""
    now_s = time.monotonic()
    pauses, ends = Pauses(now_s + 0.5), list[float]()
    while await pauses.wait():
        ends.append(time.monotonic() - now_s)
    assert 3 <= len(ends) <= 9
    assert ends == sorted(ends)
    assert time.monotonic() - now_s < 20
    assert PAUSE_MAX_S < 1


async def test_what_fails_is_told_in_few_lines(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """One when it begins, one when it ends, whatever is sent meanwhile."""
    cluster.create("t", 1)
    caplog.set_level(logging.INFO, "aerobee.client")
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        for broker in cluster.brokers:
            broker.refuse(SEND, ResponseCode.SYSTEM_BUSY, times=4)
        for _ in range(8):
            with_retries = asyncio.create_task(producer.send(Message("t", b"x")))
            await asyncio.wait([with_retries])
            with_retries.exception()
        await producer.send(Message("t", b"x"))
        await producer.send(Message("t", b"x"))
    lines = [each.getMessage() for each in caplog.records if "sending to" in each.getMessage()]
    for broker in cluster.brokers:
        own = [line for line in lines if broker.name in line]
        assert len(own) == 2, lines
        assert "answered 2 (SYSTEM_BUSY)" in own[0]
        assert "works again" in own[1]


async def test_connections_are_told_when_they_are_made_lost_and_back(
    real: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """By the broker's name, and not once for each send."""
    caplog.set_level(logging.INFO, "aerobee.client")
    async with Producer(namesrv=real.namesrv_addr) as producer:
        await producer.send(Message("t", b"x"))
        broker = real.brokers.pop()
        at = f"broker-a (127.0.0.1:{broker.port})"
        await broker.stop()
        sends = [
            asyncio.create_task(producer.send(Message("t", b"x"), timeout_ms=20_000))
            for _ in range(50)
        ]
        await until(lambda: any("fails" in line for line in caplog.messages))
        real.brokers.append(await real._start_broker(0, broker.port))
        await asyncio.gather(*sends)
    told = [line for line in caplog.messages if at in line]
    assert told[0] == f"connected to {at}"
    assert told[1].startswith(f"connection to {at} fails: ")
    assert told[2].startswith(f"connection to {at} works again, after ")
    assert len(told) == 3


async def test_a_nameserver_that_is_not_there_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever looks for routes, and however often."""
    caplog.set_level(logging.INFO, "aerobee.client")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    async with Producer(namesrv=address) as producer:
        for _ in range(3):
            with pytest.raises(Unavailable, match="Connection refused"):
                await producer.send(Message("t", b"x"), timeout_ms=150)
    assert [line for line in caplog.messages if address in line] == [
        f"looking for routes at {address} fails: {address}: Connection refused"
    ]
