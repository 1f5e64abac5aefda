"""Metrics beside those of the real RocketMQ 5.5.0: name by name, label by label."""

import asyncio
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.processes import free_port
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

TOPIC: Final = "metered"
GROUP: Final = "meters"
COUNT: Final = 40
LEFT_OUT: Final = {
    "rocketmq_message_size": "a look at each message",
    "rocketmq_timer_message_snapshot": "a day's slots on each scrape",
}
"""What RocketMQ has, and METRICS.md says why it is not here."""
NOT_SERVED: Final = (
    "rocketmq_pop_",
    "rocketmq_rocksdb_",
    "rocketmq_tiered_store_",
    "jvm_",
    "target_info",
    "otel_",
)
SCOPE: Final = {"otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}

Labels = frozenset[tuple[str, str]]


class Family(NamedTuple):
    """One metric as it was scraped: its kind, the names of its labels, its series."""

    kind: str
    labels: frozenset[str]
    series: Mapping[Labels, float]


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Family]]]:
    """Do the same to both brokers, and scrape both."""
    found: dict[str, dict[str, Family]] = {}
    for kind in (RocketMQ, Aerobee):
        port = free_port()
        settings = {
            "metricsExporterType": "PROM",
            "metricsPromExporterHost": "127.0.0.1",
            "metricsPromExporterPort": str(port),
            "metricsLabel": "zone:a",
        }
        with kind(tmp_path_factory.mktemp(kind.name), settings=settings) as cluster:
            found[kind.name] = asyncio.run(used(cluster, "http" + f"://127.0.0.1:{port}/metrics"))
            cluster.stop()
    yield found


async def used(cluster: Cluster, address: str) -> dict[str, Family]:
    """Send, consume, give back; return what is scraped while the consumer is there."""
    got: list[bytes] = []

    async def take(message: ReceivedMessage) -> None:
        got.append(message.body)

    consumer = PushConsumer(GROUP, namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(TOPIC, take)
    async with Producer("meters-p", namesrv=cluster.namesrv) as producer:
        await producer.send(Message(TOPIC, b"first"))
        async with consumer:
            for number in range(COUNT - 1):
                await producer.send(Message(TOPIC, b"message %d" % number))
            await producer.send(Message("later", b"x", delay_level=1))
            await until(lambda: len(got) == COUNT, timeout_s=60, what="all to be consumed")
            return await asyncio.to_thread(scrape_whole, address)


def scrape_whole(address: str) -> dict[str, Family]:
    """Scrape until all that was done is told."""
    deadline = time.monotonic() + 60
    while not told(found := scrape(address)):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def told(found: Mapping[str, Family]) -> bool:
    """Whether all that was done is told: offsets are committed, and clients beat, now and then."""
    consumed = [
        of(found[f"rocketmq_consumer_{name}"], consumer_group=GROUP, topic=TOPIC)
        for name in ("lag_messages", "inflight_messages")
        if f"rocketmq_consumer_{name}" in found
    ]
    connected = [found.get(f"rocketmq_{kind}_connections") for kind in ("producer", "consumer")]
    waits = of(found["rocketmq_messages_in_total"], topic="SCHEDULE_TOPIC_XXXX")
    return (
        len(consumed) == 2
        and all(each and set(each.values()) == {0.0} for each in consumed)
        and all(each is not None and each.series for each in connected)
        and bool(waits)
    )


def scrape(address: str) -> dict[str, Family]:
    """Return the metrics of an address by their names."""
    with urllib.request.urlopen(address, timeout=30) as reply:
        text = reply.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        plain = [s for s in family.samples if not s.name.endswith(("_created", "_bucket"))]
        names = frozenset({label for s in plain for label in s.labels} - SCOPE)
        series = {
            frozenset((k, v) for k, v in s.labels.items() if k not in SCOPE): s.value
            for s in plain if not s.name.endswith("_sum")
        }  # fmt: skip
        found[name] = Family(family.type, names, series)
    return found


def of(family: Family, **labels: str) -> dict[Labels, float]:
    """Return the series of a family that have these labels."""
    return {
        key: value for key, value in family.series.items() if labels.items() <= dict(key).items()
    }


def test_every_metric_of_rocketmq_is_there(scrapes: dict[str, dict[str, Family]]) -> None:
    """By its name, of its kind, with its labels, but for what the list says."""
    theirs, ours = scrapes["rocketmq"], scrapes["aerobee"]
    served = {name for name in theirs if not name.startswith(NOT_SERVED)}
    assert len(served) > 25
    assert served - set(ours) == {name for name in LEFT_OUT if name in served}
    for name in served & set(ours):
        assert ours[name].kind == theirs[name].kind, name
        assert ours[name].labels == theirs[name].labels, name
    strangers = {name for name in ours if name.startswith("rocketmq_")} - set(theirs)
    assert not strangers, "what has RocketMQ's name is RocketMQ's"


def test_series_of_clients_and_topics_are_alike(scrapes: dict[str, dict[str, Family]]) -> None:
    """With the very labels, and the numbers where both count the same."""
    theirs, ours = scrapes["rocketmq"], scrapes["aerobee"]
    for name in ("rocketmq_producer_connections", "rocketmq_broker_permission"):
        assert ours[name].series == theirs[name].series, name
    for name in ("rocketmq_messages_in_total", "rocketmq_throughput_in_total"):
        mine, real = of(ours[name], topic=TOPIC), of(theirs[name], topic=TOPIC)
        assert mine == real, name
    for name in ("rocketmq_consumer_connections", "rocketmq_messages_out_total"):
        mine, real = (of(each[name], consumer_group=GROUP) for each in (ours, theirs))
        assert mine == real, name
    for name in ("lag_messages", "inflight_messages", "ready_messages", "lag_latency_milliseconds"):
        mine, real = (
            of(each[f"rocketmq_consumer_{name}"], consumer_group=GROUP, topic=TOPIC)
            for each in (ours, theirs)
        )
        assert mine == real, name
        assert set(mine.values()) == {0.0}
    processors = {
        frozenset(dict(key)["processor"] for key in each["rocketmq_processor_watermark"].series)
        for each in (ours, theirs)
    }
    assert len(processors) == 1


def test_delayed_messages_are_told_alike(scrapes: dict[str, dict[str, Family]]) -> None:
    """As they wait, by the topic in which they do."""
    theirs, ours = (
        of(scrapes[each]["rocketmq_messages_in_total"], topic="SCHEDULE_TOPIC_XXXX")
        for each in ("rocketmq", "aerobee")
    )
    assert ours == theirs


def test_codes_have_their_names(scrapes: dict[str, dict[str, Family]]) -> None:
    """Requests that both serve by a function of their own."""
    theirs, ours = (
        {
            dict(key)["request_code"]
            for key in scrapes[each]["rocketmq_rpc_latency_milliseconds"].series
        }
        for each in ("rocketmq", "aerobee")
    )
    assert {"heart_beat", "get_consumer_list_by_group"} <= ours & theirs
