"""Reads and writes of the Spark source over the network, against each broker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.ledger import Ledger
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import RocketMQ
from support.lake.plans import planned_pieces, planned_pulls

from aerobee.spark.network.brokers import Network
from aerobee.spark.network.reads import network_batches
from aerobee.spark.options.address import TOOLS_GROUP, NetworkAddress
from aerobee.spark.options.query import parse_options
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import COLUMNS, arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.sinks.options import parse_sink_options
from aerobee.spark.sinks.plan import SinkPlan, note_batch, plan_batch
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.sinks.task import SinkReport, write_rows

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
NAMES = [column.name for column in COLUMNS if column.name != "_corrupt"]
SEGMENT_BYTES = 1 << 20
ROUNDS_S = 60.0  # for which reads by offsets may be behind a broker that runs
Row = dict[str, Any]


@pytest.fixture(scope="module", params=["rocketmq", "aerobee"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each broker in turn, with messages of many shapes, and a file of the log that is deleted."""
    folder = tmp_path_factory.mktemp(f"network-{request.param}")
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with KINDS[request.param](folder, settings=settings) as cluster:
        ledger = Ledger({"spark-a": 4, "spark-b": 1}, seed=20261121)
        ledger.create(cluster)
        ledger.write(cluster, 3000)
        create_topic(cluster.broker, "written", 4)
        wait_for_route(cluster.namesrv, "written")
        yield cluster
        cluster.stop()


def over_network(cluster: Cluster, **options: str) -> list[Row]:
    """The rows that brokers send."""
    parsed = parse_options({"namesrv": cluster.namesrv, **options})
    rows: list[Row] = []
    for piece in planned_pulls(parsed, parsed.selection):
        for batch in network_batches(piece, parsed.selection, decoder):
            rows += batch.to_pylist()
    return sorted(rows, key=place)


def of_the_store(cluster: Cluster, **options: str) -> list[Row]:
    """The rows that the broker's files have."""
    parsed = parse_options({"path": f"broker-a={cluster.store}", **options})
    rows: list[Row] = []
    for store_piece in planned_pieces(parsed, NAMES, parsed.selection):
        for batch in piece_batches(
            store_piece.piece, parsed.selection, decoder(store_piece.broker)
        ):
            rows += batch.to_pylist()
    return sorted(rows, key=place)


def decoder(broker: str) -> Decoder:
    return Decoder(arrow_schema(NAMES), broker=broker)


def place(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["queue_id"], row["queue_offset"]


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "spark-a,spark-b", "minPartitions": "5"},
        {"subscribePattern": "spark-.", "verifyCrc": "true"},
        {"assign": '{"spark-a": [1, 2]}', "startingOffsets": '{"spark-a": {"1": 50}}'},
    ],
    ids=["subscribe", "pattern", "assign"],
)
def test_reads_equal_the_store(cluster: Cluster, options: dict[str, str]) -> None:
    """Every column of every message."""
    options = {name: text.replace("[1, 2]", '["1", "2"]') for name, text in options.items()}
    rows = over_network(cluster, **options)
    assert len(rows) > 500
    limit_s = time.monotonic() + ROUNDS_S
    while len(of_the_store(cluster, **options)) < len(rows) and time.monotonic() < limit_s:
        time.sleep(0.2)  # until the queues' files have the newest entries
    assert rows == of_the_store(cluster, **options)


def test_reads_of_a_time_are_exact(cluster: Cluster) -> None:
    """The brokers' own search narrows, the messages' times decide."""
    rows = over_network(cluster, subscribe="spark-a")
    times = sorted({round(row["store_timestamp"].timestamp() * 1000) for row in rows})
    since, until = times[len(times) // 4], times[len(times) // 2]
    options = {"startingTimestamp": str(since), "endingTimestamp": str(until)}
    expected = [
        row for row in rows if since <= round(row["store_timestamp"].timestamp() * 1000) < until
    ]
    assert over_network(cluster, subscribe="spark-a", **options) == expected
    assert 0 < len(expected) < len(rows)


def test_whole_cluster_is_listed(cluster: Cluster) -> None:
    """Users' topics alone, and those of the system where they are asked for."""
    topics = {row["topic"] for row in over_network(cluster)}
    assert topics >= {"spark-a", "spark-b"}
    with Network(NetworkAddress((cluster.namesrv,))) as network:
        assert network.brokers() == ["broker-a"]
        assert "SCHEDULE_TOPIC_XXXX" in {key.topic for key in network.bounds()}
    assert TOOLS_GROUP == "TOOLS_CONSUMER"


def test_writes_and_second_attempts(cluster: Cluster) -> None:
    """The brokers' nameserver keeps where a micro-batch began, and nothing is stored twice."""
    given = {"namesrv": cluster.namesrv, "topic": "written", "sinkId": f"sink-{cluster.name}"}
    options = parse_sink_options(given, stream=True)
    first = write(plan_batch(options), rows(0, 700), 0)
    assert (first.sent, first.found) == (700, 0)
    note_batch(options, "query", 0, {"written"})
    write(plan_batch(options), rows(700, 1000), 1)  # the driver dies after these
    again = write(plan_batch(options), rows(700, 1500), 1)
    assert (again.sent, again.found) == (500, 300)
    note_batch(options, "query", 1, {"written"})
    assert write(plan_batch(options), rows(700, 1500), 1).sent == 0
    found = over_network(cluster, subscribe="written")
    assert Counter(row["body"] for row in found) == Counter(b"row %d" % n for n in range(1500))
    assert {row["tags"] for row in found} == {"a"}
    assert all(f"key-{bytes(row['body']).split()[1].decode()}" == row["keys"] for row in found)


def rows(first: int, end: int) -> pa.RecordBatch:
    """Some rows."""
    numbers = range(first, end)
    columns = {
        "body": [b"row %d" % number for number in numbers],
        "keys": [f"key-{number}" for number in numbers],
        "tags": ["a" for _ in numbers],
    }
    return pa.RecordBatch.from_pydict(columns)


def write(plan: SinkPlan, batch: pa.RecordBatch, number: int) -> SinkReport:
    """Write a micro-batch as one task."""
    return write_rows(plan, Attempted(plan.sink, "query", number, 0), 0, [batch])


def test_broker_that_comes_back(cluster: Cluster) -> None:
    """A read that begins while the broker is away goes on when it is there again."""
    parsed = parse_options({"namesrv": cluster.namesrv, "subscribe": "spark-a"})
    expected = over_network(cluster, subscribe="spark-a")
    pieces = planned_pulls(parsed, parsed.selection)
    cluster.stop_broker()
    starting = threading.Thread(target=cluster.start)
    starting.start()
    found: list[Row] = []
    for piece in pieces:
        for batch in network_batches(piece, parsed.selection, decoder):
            found += batch.to_pylist()
    starting.join()
    assert sorted(found, key=place) == expected
