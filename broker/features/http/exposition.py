"""The metrics as Prometheus text: read on the loop in small turns, written in a thread."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from aerobee.broker.features.http.degraded import lost_messages, lost_offsets, passed_over
from aerobee.broker.features.http.overview import is_writable
from aerobee.broker.health.metrics import NAMES
from aerobee.broker.room import Room
from aerobee.broker.rules.system_topics import system_topic_names
from aerobee.broker.start.context import Context
from aerobee.remoting.command import language_name
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import CONSUME_ACTIVELY, DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.upkeep.statistics import StoreStatistics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
ROWS_PER_TURN: Final = 100
ROWS_PER_PIECE: Final = 500
HEADER_LINES: Final = 2  # of a family, HELP and TYPE
DISK_WAIT_S: Final = 2.0  # then the metrics are told without what has to be read for them

Labels = dict[str, str]
Unread = dict[tuple[str, str], list[tuple[QueueSnapshot, int]]]
"""By topic and group the oldest messages that are not consumed, queue by queue."""


@dataclass(slots=True)
class MetricValues:
    """Values by metric name, with their labels."""

    common: Labels
    names: Mapping[str, str]  # with what is said of each
    rows: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict)

    def add(self, name: str, value: float, **labels: str) -> None:
        """Take one value; the name must be in the table of names."""
        assert name in self.names, name
        self.rows.setdefault(name, []).append((labels, value))


class _Rows(Collector):
    """Hands some rows of one metric to the writer of prometheus_client."""

    def __init__(self, name: str, values: MetricValues) -> None:
        self._name, self._values = name, values
        self._kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        named = {key for labels, _ in values.rows[name] for key in labels}
        self._keys = [*values.common, *sorted(named)]
        self.rows: list[tuple[Labels, float]] = []

    def collect(self) -> Iterable[Metric]:
        """Yield one family."""
        family = self._kind(self._name, self._values.names[self._name], labels=self._keys)
        for labels, value in self.rows:
            full = self._values.common | labels
            family.add_metric([full.get(key, "") for key in self._keys], value)
        yield family


async def text(ctx: Context) -> bytes:
    """Return every metric of the broker; other connections are served meanwhile."""
    values = MetricValues(
        {
            "node_type": "broker",
            "cluster": ctx.settings.broker_cluster_name,
            "node_id": ctx.settings.broker_name,
        },
        NAMES | {name: said for room in ctx.rooms for name, said in room.metric_help.items()},
    )
    _broker(ctx, values)
    for room in tuple(ctx.rooms):
        await _in_turns(_of_room(room, values))
    unread: Unread = {}
    await _in_turns(_look_for_unread(ctx, unread))
    await _in_turns(_many(ctx, values, await _times(ctx, unread)))
    return await asyncio.to_thread(_write, values)


async def _in_turns(steps: Iterator[None]) -> None:
    for count, _ in enumerate(steps, 1):
        if count % ROWS_PER_TURN == 0:
            await asyncio.sleep(0)


async def _times(ctx: Context, unread: Unread) -> dict[tuple[str, str], int | None]:
    """Return how old what is not consumed is; nothing where the disk does not answer in time."""
    try:
        async with asyncio.timeout(DISK_WAIT_S):
            return await ctx.cold.lookups.earliest_times(unread)
    except (TimeoutError, RequestError):
        return {}


def _write(values: MetricValues) -> bytes:
    """Write some rows at a time: the objects of all would be searched for garbage in one go,
    for which every thread of the process stands still."""
    pieces: list[bytes] = []
    for name, rows in values.rows.items():
        collector, registry = _Rows(name, values), CollectorRegistry(auto_describe=False)
        registry.register(collector)
        for at in range(0, len(rows), ROWS_PER_PIECE):
            collector.rows = rows[at : at + ROWS_PER_PIECE]
            text = generate_latest(registry)
            pieces.append(text.split(b"\n", HEADER_LINES)[HEADER_LINES] if at else text)
    return b"".join(pieces)


def _broker(ctx: Context, values: MetricValues) -> None:
    """Add what there is once."""
    statistics: StoreStatistics = ctx.store.statistics()
    add = values.add
    add("rocketmq_broker_permission", ctx.settings.broker_permission)
    add("rocketmq_topic_number", len(ctx.tables.topics))
    add("rocketmq_consumer_group_number", len(ctx.tables.groups))
    store = {"storage_type": "local", "storage_medium": "disk"}
    add("rocketmq_storage_size", statistics.position - statistics.log_begin, **store)
    add("rocketmq_storage_flush_behind_bytes", statistics.unflushed_bytes, **store)
    add("rocketmq_storage_dispatch_behind_bytes", 0, **store)  # queues are written with the log
    earliest = statistics.earliest_store_timestamp
    age_ms = max(0, ctx.now_ms() - earliest) if earliest else 0
    add("rocketmq_storage_message_reserve_time", age_ms, **store)
    add("aerobee_fsyncs_total", statistics.fsyncs)
    add("aerobee_log_space_lacks_total", statistics.space_lacks)
    add("aerobee_disk_used_ratio", statistics.disk_used_ratio)
    add("aerobee_log_files_removed_total", statistics.removed_log_files)
    add("aerobee_store_writable", int(is_writable(ctx)))
    damage = ctx.store.damage
    add("aerobee_store_damaged_bytes", sum(span.end - span.begin for span in damage))
    add("aerobee_store_damaged_spans", len(damage))
    add("aerobee_store_lost_messages", lost_messages(damage))
    add("aerobee_store_passed_over_messages", lost_offsets(passed_over(ctx)))


def _of_room(room: Room, values: MetricValues) -> Iterator[None]:
    """Add what a room measures; yields after each, between which topics may come and go."""
    for sample in room.samples():
        values.add(sample.name, sample.value, **sample.labels)
        yield


def _many(
    ctx: Context, values: MetricValues, times: dict[tuple[str, str], int | None]
) -> Iterator[None]:
    """Add what there is for every topic, group or connection; yields after each."""
    system = system_topic_names(ctx.settings)

    def is_system(topic: str) -> str:
        return str(topic in system or topic.startswith(SYSTEM_PREFIX)).lower()

    arrived: Counter[str] = Counter()
    arrived_bytes: Counter[str] = Counter()
    for queue in ctx.writing.queues.used():
        arrived[queue.name] += queue.stored.max_offset - queue.start_offset
        arrived_bytes[queue.name] += queue.arrived_bytes
        yield
    for topic, count in arrived.items():
        labels = {"topic": topic, "message_type": "normal", "is_system": is_system(topic)}
        values.add("rocketmq_messages_in_total", count, **labels)
        values.add("rocketmq_throughput_in_total", arrived_bytes[topic], **labels)
        yield
    for (topic, group), out in list(ctx.health.metrics.outgoing.items()):
        labels = _group_labels(topic, group, is_system(topic))
        values.add("rocketmq_messages_out_total", out.messages, **labels)
        values.add("rocketmq_throughput_out_total", out.size_bytes, **labels)
        yield
    for (topic, group), count in list(ctx.health.metrics.dead_letters.items()):
        labels = {"topic": topic, "consumer_group": group, "is_system": is_system(topic)}
        values.add("rocketmq_send_to_dlq_messages_total", count, **labels)
        yield
    yield from _connections(ctx, values)
    for topic, group, queues in ctx.tables.offsets.entries():
        if group not in ctx.tables.groups:
            continue
        since_ms = times.get((topic, group))
        labels = _group_labels(topic, group, is_system(topic))
        values.add("rocketmq_consumer_lag_messages", _lag(ctx, topic, queues), **labels)
        if since_ms is not None:
            latency_ms = max(0, ctx.now_ms() - since_ms) if since_ms else 0
            values.add("rocketmq_consumer_lag_latency", latency_ms, **labels)
        yield


def _connections(ctx: Context, values: MetricValues) -> Iterator[None]:
    consumers: Counter[tuple[str, int, int, str]] = Counter()
    for group in ctx.consumers.members.groups():
        for member in list(group.members.values()):
            client = member.client
            mode = "pull" if group.consume_type == CONSUME_ACTIVELY else "push"
            consumers[group.name, client.language, client.version, mode] += 1
            yield
    for (name, language, version, mode), count in consumers.items():
        values.add(
            "rocketmq_consumer_connections",
            count,
            consumer_group=name,
            language=language_name(language).lower(),
            version=str(version),
            consume_mode=mode,
            protocol_type="remoting",
        )
    producers: Counter[tuple[int, int]] = Counter()
    for members in ctx.consumers.members.producers().values():
        producers.update((member.client.language, member.client.version) for member in members)
        yield
    for (language, version), count in producers.items():
        values.add(
            "rocketmq_producer_connections",
            count,
            language=language_name(language).lower(),
            version=str(version),
            protocol_type="remoting",
        )


def _lag(ctx: Context, topic: str, queues: dict[int, int]) -> int:
    """Return how many messages are not yet consumed."""
    return sum(queue.max_offset - offset for queue, offset in _behind(ctx, topic, queues))


def _behind(ctx: Context, topic: str, queues: dict[int, int]) -> Iterator[tuple[ConsumeQueue, int]]:
    """Yield the queues that a group has not read to their end, and where it has got to."""
    for queue_id, committed in queues.items():
        queue = ctx.store.find_queue(topic, queue_id)
        if queue is not None and committed < queue.max_offset:
            yield queue, committed


def _look_for_unread(ctx: Context, found: Unread) -> Iterator[None]:
    """Find the oldest messages that are not consumed; yields after each topic of a group."""
    for topic, group, queues in ctx.tables.offsets.entries():
        if group in ctx.tables.groups:
            found[topic, group] = [
                (queue.snapshot(), max(committed, queue.min_offset))
                for queue, committed in _behind(ctx, topic, queues)
            ]
        yield


def _group_labels(topic: str, group: str, is_system: str) -> Labels:
    return {
        "topic": topic,
        "consumer_group": group,
        "is_retry": str(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))).lower(),
        "is_system": is_system,
    }
