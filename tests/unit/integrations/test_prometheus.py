"""What clients do is there for Prometheus, by names that the world knows."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
    StatisticSample,
)
from aerobee.integrations.prometheus import ClientMetrics
from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """Serve for the module."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture
def registry() -> CollectorRegistry:
    """Give one of this test alone."""
    return CollectorRegistry()


async def test_sends_and_handlers_are_counted_and_timed(
    registry: CollectorRegistry, cluster: ClusterThread
) -> None:
    """Successes and failures; the consumer's statistics with its queues, read by another thread."""
    cluster.create_topic("orders", 2)
    metrics = ClientMetrics(registry)
    consumer = PushConsumer(
        "c", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST, hooks=[metrics]
    )
    metrics.watch(consumer)

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"bad":
            raise ValueError("as it is")

    consumer.subscribe("orders", handle)
    async with Producer("p", namesrv=cluster.namesrv_addr, hooks=[metrics]) as producer, consumer:
        await producer.send_many([Message("orders", b"%d" % at) for at in range(3)])
        await producer.send_oneway(Message("orders", b"4"))
        await producer.send(Message("orders", b"bad"))
        counted = {"topic": "orders", "consumer_group": "c"}
        handled = "aerobee_client_messages_handled_total"
        done = counted | {"outcome": "success"}
        await until(lambda: registry.get_sample_value(handled, done) == 4)
        await until(lambda: registry.get_sample_value(handled, counted | {"outcome": "exception"}))
        await until(lambda: not consumer.statistics().handlers.running)  # it is given back
        value = registry.get_sample_value
        sent = {"topic": "orders", "producer_group": "p"}
        assert value("aerobee_client_messages_sent_total", sent) == 5
        good, bad = {"invocation_status": "success"}, {"invocation_status": "failure"}
        assert value("rocketmq_send_cost_time_count", sent | good) == 2
        assert value("rocketmq_process_time_count", counted | good) == 4
        assert value("rocketmq_process_time_count", counted | bad) == 1
        assert value("rocketmq_delivery_latency_count", counted) == 5
        text = (await asyncio.to_thread(generate_latest, registry)).decode()
    assert 'aerobee_client_handler_calls_total{consumer_group="c",topic="orders"} 5.0' in text
    assert "# TYPE rocketmq_consumer_cached_messages gauge" in text
    assert 'aerobee_client_handlers_running{consumer_group="c"} 0.0' in text
    lags = [
        line for line in text.splitlines() if line.startswith("rocketmq_consumer_lag_messages{")
    ]
    assert lags and all(line.endswith(" 0.0") for line in lags if 'topic="orders"' in line)


async def test_a_send_that_fails_is_a_failure(registry: CollectorRegistry) -> None:
    """Nothing was sent by it, and nothing is made up for who is not there."""
    metrics = ClientMetrics(registry)
    settings = ProducerSettings(send_timeout_ms=300, retries_max=0)
    with ClusterThread() as cluster:
        producer = Producer(namesrv=cluster.namesrv_addr, settings=settings, hooks=[metrics])
        cluster.create_topic("orders", 1)
        async with producer:
            await producer.send(Message("orders", b"x"))
            await asyncio.to_thread(cluster.stop)
            with pytest.raises(Exception):  # noqa: B017 - whichever the cluster's end makes it
                await producer.send(Message("orders", b"x"))
    labels = {"topic": "orders", "producer_group": "DEFAULT_PRODUCER"}
    value = registry.get_sample_value
    assert value("aerobee_client_messages_sent_total", labels) == 1
    text = generate_latest(registry).decode()
    assert "rocketmq_consumer" not in text


async def test_what_is_fetched_and_not_done_is_lag(
    registry: CollectorRegistry, cluster: ClusterThread
) -> None:
    """As the last message that was handed out knew the end of its queue; two are added up."""
    cluster.create_topic("lagging", 1)
    metrics = ClientMetrics(registry)
    consumer = LitePullConsumer(
        "l", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST, hooks=[metrics]
    )
    consumer.subscribe("lagging")
    async with Producer(namesrv=cluster.namesrv_addr) as producer, consumer:
        await producer.send_many([Message("lagging", b"%d" % at) for at in range(10)])
        metrics.watch(consumer)
        async for message in consumer:
            labels = {
                "consumer_group": "l", "topic": "lagging", "broker": message.queue.broker_name,
                "queue": "0",
            }  # fmt: skip
            lag = registry.get_sample_value("rocketmq_consumer_lag_messages", labels)
            assert lag == 10 - message.queue_offset
            if message.queue_offset == 9:
                break
    del consumer
    assert registry.get_sample_value("rocketmq_consumer_lag_messages", labels) is None


class Told:
    """A consumer of which only its numbers are wanted."""

    def samples(self) -> list[StatisticSample]:
        return [StatisticSample("messages_waiting", 7, {"group": "t"}, "Waiting.")]


def waiting(registry: CollectorRegistry) -> float | None:
    """Return what a scrape says of it."""
    return registry.get_sample_value("aerobee_client_messages_waiting", {"consumer_group": "t"})


def test_a_loop_that_ends_fails_no_scrape(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks while it is held, and it ends then, is told of the others."""
    metrics, consumer, asked = ClientMetrics(registry), Told(), threading.Event()
    watching = threading.Event()
    ask = asyncio.run_coroutine_threadsafe

    def asks(*given: Any) -> Any:
        asking = ask(*given)
        asked.set()
        return asking

    async def program() -> None:
        metrics.watch(consumer)
        watching.set()
        assert asked.wait(10)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", asks)
    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    assert watching.wait(10)
    assert waiting(registry) is None
    thread.join()
    assert waiting(registry) == 7


async def test_a_loop_that_is_closed_in_that_moment_fails_no_scrape(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else reads its consumers any more."""
    metrics, consumer = ClientMetrics(registry), Told()
    metrics.watch(consumer)

    def closed(*_: Any) -> Any:
        raise RuntimeError("Event loop is closed")

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", closed)
    assert await asyncio.to_thread(waiting, registry) == 7
