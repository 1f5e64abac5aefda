"""Reads over the network: the same messages as the brokers' stores hold, or a clear refusal."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.lake.plans import planned_pieces, planned_pulls

from aerobee.client import Message, Producer
from aerobee.client.cluster.directory import Cluster
from aerobee.spark.errors import OptionError
from aerobee.spark.network import pulls as network_pulls
from aerobee.spark.network import reads as network_reads
from aerobee.spark.network.reads import network_batches
from aerobee.spark.options.query import Options, parse_options
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records import unpacking
from aerobee.spark.records.columns import COLUMNS, CORRUPT, arrow_schema
from aerobee.spark.records.damage import STRICT
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.selection import Limits, Selection
from aerobee.testing import ClusterThread

NAMES = [column.name for column in COLUMNS if column.name != CORRUPT]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers with messages of all kinds in two topics, and two stores of theirs."""
    settings = {"mapped_file_size_commit_log": 1 << 20}
    with ClusterThread(brokers=2, broker_settings=settings) as cluster:
        asyncio.run(fill(cluster.namesrv_addr))
        yield cluster


async def fill(namesrv: str) -> None:
    """Send single messages, large ones that are compressed, and batches."""
    chance = random.Random(5)
    async with Cluster(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        for topic, queues in (("orders", 3), ("payments", 1), ("%RETRY%billing", 1)):
            await admin.create_topic(topic, queues=queues)
            for _ in range(30):
                await asyncio.gather(*(producer.send(made(topic, chance)) for _ in range(10)))
        many = [made("orders", chance) for _ in range(200)]
        await producer.send_many(many, queue=(await producer.fetch_queues("orders"))[0])


def made(topic: str, chance: random.Random) -> Message:
    """Some message."""
    return Message(
        topic,
        chance.randbytes(1) * chance.choice([1, 20, 1000, 6000]),
        tags=chance.choice([None, "a", "Prüfung"]),
        keys=chance.choice(["", "order-7 ключ"]),
        properties=chance.choice([{}, {"region": "north"}]),
    )


def stored(cluster: ClusterThread, **options: str) -> list[Row]:
    """The rows that a read of the brokers' files finds."""
    path = ",".join(f"{name}={cluster.store_path(at)}" for at, name in enumerate(names(cluster)))
    parsed = parse_options({"path": path, **options})
    rows: list[Row] = []
    for store_piece in planned_pieces(parsed, NAMES, parsed.selection):
        decoder = decoder_of(parsed, store_piece.broker)
        batches = piece_batches(store_piece.piece, parsed.selection, decoder, STRICT)
        rows += [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=place)


def pulled(cluster: ClusterThread, **options: str) -> list[Row]:
    """The rows that a read over the network finds."""
    parsed = parse_options({"namesrv": cluster.namesrv_addr, **options})
    return pulled_of(parsed, parsed.selection)


def pulled_of(parsed: Options, selection: Selection) -> list[Row]:
    """The rows of a selection."""
    rows: list[Row] = []
    for piece in planned_pulls(parsed, selection):
        batches = network_batches(piece, selection, lambda broker: decoder_of(parsed, broker))
        rows += [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=place)


def decoder_of(options: Options, broker: str) -> Decoder:
    return Decoder(
        arrow_schema(NAMES),
        decompress=options.decompress,
        verify_crc=options.verify_crc,
        broker=broker,
    )


def wait_until(true: Callable[[], bool]) -> None:
    """Ask again and again for some seconds; an OptionError is a no."""
    until_s = time.monotonic() + 10
    while True:
        with contextlib.suppress(OptionError):
            if true():
                return
        assert time.monotonic() < until_s, "the files do not have the rows"
        time.sleep(0.1)


def place(row: Row) -> tuple[Any, ...]:
    return row["broker"], row["topic"], row["queue_id"], row["queue_offset"]


def names(cluster: ClusterThread) -> list[str]:
    return [broker.settings.broker_name for broker in cluster.cluster.brokers]


@pytest.mark.parametrize(
    "options",
    [
        {"includeRetryTopics": "true", "minPartitions": "7", "decompress": "true"},
        {"subscribe": "orders", "verifyCrc": "true"},
        {"subscribePattern": "p.*"},
        {"assign": '{"orders": ["broker-a:0", "broker-b:2"]}', "minPartitions": "3"},
        {"subscribe": "orders", "startingOffsets": '{"orders": {"broker-a:0": 7}}'},
        {"subscribe": "orders", "endingOffsets": '{"orders": {"broker-b:1": 9}}'},
    ],
    ids=["all", "subscribe", "pattern", "assign", "starting", "ending"],
)
def test_same_rows_as_the_stores_have(cluster: ClusterThread, options: dict[str, str]) -> None:
    """Every column of every message, whatever options choose among them."""
    rows = pulled(cluster, **options)
    wait_until(lambda: stored(cluster, **options) == rows)  # a round writes the entries out
    assert len(rows) > 60


def test_body_that_cannot_be_unpacked_harms_itself_alone(
    cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes as it is stored, with its bit in `sys_flag`, and so do all others as they should."""
    plain, whole = pulled(cluster), pulled(cluster, decompress="true")
    longest = max(len(row["body"]) for row in whole if row["sys_flag"] & 1)
    monkeypatch.setattr(unpacking, "BODY_BYTES_MAX", longest - 1)
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", 1000)
    expected = [
        old if row["sys_flag"] & 1 and len(row["body"]) == longest else row
        for old, row in zip(plain, whole, strict=True)
    ]
    assert expected != whole
    assert pulled(cluster, decompress="true") == expected
    assert stored(cluster, decompress="true") == expected


def test_times_are_exact(cluster: ClusterThread) -> None:
    """Both ends, to the millisecond."""
    times = sorted({round(row["store_timestamp"].timestamp() * 1000) for row in pulled(cluster)})
    since, until = str(times[len(times) // 4]), str(times[len(times) * 3 // 4])
    options = {"startingTimestamp": since, "endingTimestamp": until}
    rows = pulled(cluster, **options)
    assert rows == stored(cluster, **options)
    assert 0 < len(rows) < len(pulled(cluster))


def test_filters_narrow_what_is_pulled(cluster: ClusterThread) -> None:
    """Topics, queues and offsets that Spark hands over."""
    parsed = parse_options({"namesrv": cluster.namesrv_addr})
    wanted = Selection(
        topics=frozenset({"orders"}),
        queue_ids=Limits(values=frozenset({1})),
        queue_offsets=Limits(low=3, high=8),
        choice=parsed.selection.choice,
    )
    pieces = planned_pulls(parsed, wanted)
    assert [(each.key.queue_id, each.start, each.end) for p in pieces for each in p.ranges] == [
        (1, 3, 8),
        (1, 3, 8),
    ]
    assert [row["queue_offset"] for row in pulled_of(parsed, wanted)] == [*range(3, 8)] * 2


def test_queue_that_there_is_not(cluster: ClusterThread) -> None:
    """It is refused before anything is read."""
    with pytest.raises(OptionError, match="no queue orders broker-a:9"):
        pulled(cluster, assign='{"orders": ["broker-a:9"]}')
    with pytest.raises(OptionError, match="there is no broker 'broker-x'"):
        pulled(cluster, assign='{"orders": ["broker-x:0"]}')


def test_restart_of_the_broker_goes_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pulls that fail meanwhile are tried again."""
    monkeypatch.setattr(network_pulls, "SPAN_BYTES", 20_000)
    monkeypatch.setattr(network_reads, "BLOCK_RECORDS", 100)
    with ClusterThread() as cluster:
        cluster.create_topic("orders", queues=1)
        asyncio.run(send(cluster.namesrv_addr, 3000))
        parsed = parse_options({"namesrv": cluster.namesrv_addr, "subscribe": "orders"})
        (piece,) = planned_pulls(parsed, parsed.selection)
        decoder = Decoder(arrow_schema(["queue_offset"]))
        batches = network_batches(piece, parsed.selection, lambda broker: decoder)
        first = next(batches)
        cluster.restart_broker()
        rows = [row["queue_offset"] for batch in (first, *batches) for row in batch.to_pylist()]
        assert rows == list(range(3000))


async def send(namesrv: str, count: int) -> None:
    """Send to the one queue of `orders`."""
    async with Producer(namesrv=namesrv) as producer:
        (queue,) = await producer.fetch_queues("orders")
        for _ in range(0, count, 100):
            await producer.send_many([Message("orders", b"x" * 500)] * 100, queue=queue)
