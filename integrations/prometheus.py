"""What the clients of a process do, for Prometheus."""

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from time import monotonic
from typing import Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from aerobee.client import (
    ConsumeContext,
    ConsumeHook,
    MessageQueue,
    SendContext,
    SendHook,
    StatisticSample,
)
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.extras import need

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    need("prometheus", "aerobee.integrations.prometheus")
    raise

__all__ = ["ClientMetrics", "Sampled"]

SEND_BUCKETS_MS: Final = (1, 5, 10, 20, 50, 200, 500)
DELIVERY_BUCKETS_MS: Final = (1, 5, 10, 20, 50, 200, 500)
PROCESS_BUCKETS_MS: Final = (1, 5, 10, 100, 1_000, 10_000, 60_000)
"""Those of RocketMQ's own clients."""
PREFIX: Final = "aerobee_client_"
ROCKETMQ: Final = {
    "queue_messages": "rocketmq_consumer_cached_messages",
    "queue_bytes": "rocketmq_consumer_cached_bytes",
}
"""What RocketMQ has a name for; everything else is ours."""
LAG: Final = "rocketmq_consumer_lag_messages"
LAG_HELP: Final = "Messages of a queue that are not done, as far as this client has seen"
LABELS: Final = {"group": "consumer_group"}
QUEUES_MAX: Final = 100_000  # whose ends are remembered
SCRAPE_S: Final = 2.0  # that an event loop may take to tell of its consumers


class Sampled(Protocol):
    """A consumer that tells its statistics as numbers."""

    def samples(self) -> list[StatisticSample]:
        """Return them."""
        ...


Watched: TypeAlias = WeakKeyDictionary[Sampled, asyncio.AbstractEventLoop | None]
"""Consumers, and the loops that they live in."""


class ClientMetrics(SendHook, ConsumeHook):
    """Counts and times what clients send and handle, and exports what consumers hold.

        metrics = ClientMetrics()
        producer = Producer("p", namesrv="127.0.0.1:9876", hooks=[metrics])
        consumer = PushConsumer("c", namesrv="127.0.0.1:9876", hooks=[metrics])
        metrics.watch(consumer)
        prometheus_client.start_http_server(8000)

    As a hook, one for any number of clients, it has attempts of sends and calls of handlers, by
    RocketMQ's names and in milliseconds, as its clients have them:

    - `rocketmq_send_cost_time`: by topic, producer group and invocation_status (success, failure)
    - `rocketmq_process_time`: a call of a handler, by topic, consumer_group, invocation_status
    - `rocketmq_delivery_latency`: from a message's birth to its handler, by both clocks
    - `aerobee_client_messages_sent_total`, `aerobee_client_messages_handled_total`: messages

    Of watched consumers it has `samples()`, with `aerobee_client_` before the names or RocketMQ's
    own: `rocketmq_consumer_cached_messages`, `rocketmq_consumer_cached_bytes`. Where one is a hook
    as well, `rocketmq_consumer_lag_messages` is what its queues have that is not done, as the last
    message handled of each knew it; it is not there before that. A consumer is watched for as long
    as somebody else holds it. Two of one group in one process are added up.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Register the metrics; raises ValueError where a registry has them already."""
        self._send_time = Histogram(
            "rocketmq_send_cost_time",
            "Time of an attempt to send, in milliseconds",
            ("topic", "producer_group", "invocation_status"),
            buckets=SEND_BUCKETS_MS,
            registry=registry,
        )
        self._process_time = Histogram(
            "rocketmq_process_time",
            "Time of a call of a handler, in milliseconds",
            ("topic", "consumer_group", "invocation_status"),
            buckets=PROCESS_BUCKETS_MS,
            registry=registry,
        )
        self._delivery_time = Histogram(
            "rocketmq_delivery_latency",
            "Time from a message's birth to its handler, in milliseconds",
            ("topic", "consumer_group"),
            buckets=DELIVERY_BUCKETS_MS,
            registry=registry,
        )
        self._sent = Counter(
            f"{PREFIX}messages_sent",
            "Messages that brokers have stored, or that were sent one-way",
            ("topic", "producer_group"),
            registry=registry,
        )
        self._handled = Counter(
            f"{PREFIX}messages_handled",
            "Messages given to handlers, or polled, by what became of them",
            ("topic", "consumer_group", "outcome"),
            registry=registry,
        )
        self._ends: dict[tuple[str, MessageQueue], int] = {}
        self._watched: Watched = WeakKeyDictionary()
        registry.register(_Watched(self._watched, self._ends))

    def watch(self, *consumers: Sampled) -> None:
        """Export the samples of these consumers from now on.

        Prometheus may be answered by another thread, as `start_http_server` does: call this in the
        event loop of the consumers, by which they are read then, or before it runs, where they have
        this as their hook. A loop that is held for 2 s is left out of the answer.
        """
        loop = _running_loop()
        self._watched.update(dict.fromkeys(consumers, loop))

    def before(self, context: SendContext | ConsumeContext) -> None:
        """Look at the clock, and at how old messages are."""
        context.kept[self] = monotonic()
        if isinstance(context, SendContext) or not context.messages:
            return
        if None in self._watched.values():  # few are watched
            self._learn_loop(context.group)
        now_ms = wall_clock_ms()
        for message in context.messages:
            delivery = self._delivery_time.labels(message.topic, context.group)
            delivery.observe(max(0, now_ms - message.born_timestamp_ms))
        end = context.messages[-1].queue_offset_max
        at = (context.group, context.queue)
        if end is not None and (at in self._ends or len(self._ends) < QUEUES_MAX):
            self._ends[at] = end

    def after(self, context: SendContext | ConsumeContext) -> None:
        """Count, and time."""
        took_ms = (monotonic() - context.kept.pop(self, monotonic())) * 1000
        if isinstance(context, SendContext):
            self._after_send(context, took_ms)
            return
        good = context.outcome in ("SUCCESS", "TIME_OUT")
        if not context.polled and context.messages:
            topic, status = context.messages[0].topic, "success" if good else "failure"
            self._process_time.labels(topic, context.group, status).observe(took_ms)
        outcome = context.outcome.lower()
        for message in context.messages:
            self._handled.labels(message.topic, context.group, outcome).inc()

    def _learn_loop(self, group: str) -> None:
        """Read those consumers of a group that were watched too early by the loop that runs now."""
        loop = _running_loop()
        for consumer, known in list(self._watched.items()):
            if known is None and getattr(consumer, "group", None) == group:
                self._watched[consumer] = loop

    def _after_send(self, context: SendContext, took_ms: float) -> None:
        topic, status = context.queue.topic, "failure" if context.error else "success"
        if not context.oneway:
            self._send_time.labels(topic, context.group, status).observe(took_ms)
        if context.error is None:
            self._sent.labels(topic, context.group).inc(len(context.messages))


class _Watched(Collector):
    """Reads watched consumers when Prometheus asks."""

    def __init__(self, watched: Watched, ends: dict[tuple[str, MessageQueue], int]) -> None:
        self._watched = watched
        self._ends = ends

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: what there is depends on who is watched."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield a family for each name."""
        families: dict[str, tuple[StatisticSample, dict[tuple[tuple[str, str], ...], float]]] = {}
        for consumer, loop in list(self._watched.items()):
            samples = _read(consumer, loop)
            for sample in (*samples, *self._lags(samples)):
                labels = {LABELS.get(name, name): each for name, each in sample.labels.items()}
                _, values = families.setdefault(sample.name, (sample, {}))
                key = tuple(sorted(labels.items()))
                values[key] = values.get(key, 0.0) + sample.value
        for first, values in families.values():
            kind = CounterMetricFamily if first.is_counter else GaugeMetricFamily
            name = ROCKETMQ.get(first.name, f"{PREFIX}{first.name}")
            if first.name == LAG:
                name = LAG
            names = [label for label, _ in next(iter(values))]
            family = kind(name.removesuffix("_total"), first.help, labels=names)
            for key, value in values.items():
                family.add_metric([text for _, text in key], value)
            yield family

    def _lags(self, samples: list[StatisticSample]) -> Iterator[StatisticSample]:
        """Yield what each queue has behind what is done, where its end is known."""
        held: dict[MessageQueue, dict[str, float]] = {}
        groups: dict[MessageQueue, dict[str, str]] = {}
        for name, value, labels, _ in samples:
            if name in ("queue_messages", "queue_next_offset"):
                queue = MessageQueue(labels["topic"], labels["broker"], int(labels["queue"]))
                held.setdefault(queue, {})[name] = value
                groups[queue] = labels
        for queue, each in held.items():
            end = self._ends.get((groups[queue]["group"], queue))
            if end is not None:
                ahead = max(0.0, end - each["queue_next_offset"])
                lag = ahead + each["queue_messages"]
                yield StatisticSample(LAG, lag, groups[queue], LAG_HELP)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _read(consumer: Sampled, loop: asyncio.AbstractEventLoop | None) -> list[StatisticSample]:
    """Return the samples of a consumer, read where it lives; none where that takes too long."""
    if loop is None or loop is _running_loop() or not loop.is_running():
        return consumer.samples()

    async def samples() -> list[StatisticSample]:
        return consumer.samples()

    asked = samples()
    try:
        reading = asyncio.run_coroutine_threadsafe(asked, loop)
    except RuntimeError:  # the loop was closed in this moment
        asked.close()
        return consumer.samples()
    try:
        return reading.result(SCRAPE_S)
    except (TimeoutError, CancelledError):  # it is held, or ends
        reading.cancel()
        return []
