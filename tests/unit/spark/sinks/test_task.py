"""What tasks write, and what they do not write again, against real brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.lake.plans import planned_pulls
from support.lake.sink_writes import QUERY, once, rows, write

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.selectors import by_key
from aerobee.spark.errors import OptionError
from aerobee.spark.network.reads import network_batches
from aerobee.spark.options.query import parse_options
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.sinks import plan as sink_plan
from aerobee.spark.sinks import progress as sink_record
from aerobee.spark.sinks import row_ids as sink_ids
from aerobee.spark.sinks.options import parse_sink_options
from aerobee.spark.sinks.plan import note_batch, plan_batch, plan_write
from aerobee.spark.sinks.row_ids import Attempted, RowIds
from aerobee.spark.sinks.rows import rows_of
from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers."""
    with ClusterThread(brokers=2) as cluster:
        yield cluster


_topics = iter(range(1000))


@pytest.fixture
def topic(cluster: ClusterThread) -> str:
    """A new topic with two queues on each broker."""
    name = f"sink-{next(_topics)}"
    cluster.create_topic(name, queues=2)
    return name


def options(cluster: ClusterThread, topic: str | None, sink: str = "sink") -> dict[str, str]:
    """The options of a stream."""
    given = {"namesrv": cluster.namesrv_addr, "sinkId": f"{sink}-{topic}", "topic": topic}
    return {name: value for name, value in given.items() if value is not None}


def stored(cluster: ClusterThread, topic: str, *names: str) -> list[dict[str, Any]]:
    """The messages of a topic."""
    parsed = parse_options({"namesrv": cluster.namesrv_addr, "subscribe": topic})
    schema = arrow_schema(names or ("body",))
    found = []
    for piece in planned_pulls(parsed, parsed.selection):
        for each in network_batches(piece, parsed.selection, lambda broker: Decoder(schema)):
            found += each.to_pylist()
    return found


def bodies(cluster: ClusterThread, topic: str) -> Counter[object]:
    """How often each body is stored."""
    return Counter(row["body"] for row in stored(cluster, topic))


def test_every_column_arrives(cluster: ClusterThread, topic: str) -> None:
    """Topic, keys, tags, properties; what brokers set in properties of a read row is left out."""
    plan = plan_write(parse_sink_options({"namesrv": cluster.namesrv_addr}, stream=False))
    read = {"UNIQ_KEY": "X", "CLUSTER": "c", "region": "north", "TAGS": "t", "KEYS": "k", "n": None}
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": [topic] * 3,
            "body": ["text", "größer", "x" * 9000],
            "keys": [["a", None, "b"], ["k"], []],
            "tags": ["new", "t", None],
            "properties": pa.array(
                [{"region": "south"}, read, None], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    assert write(plan, batch).sent == 3
    found = stored(cluster, topic, "body", "keys", "tags", "properties", "sys_flag")
    by_tag = {row["tags"]: row for row in found}
    properties = {tag: dict(row["properties"]) for tag, row in by_tag.items()}
    assert (by_tag["new"]["keys"], properties["new"]["region"]) == ("a b", "south")
    assert by_tag["t"]["body"] == "größer".encode()
    assert (by_tag["t"]["keys"], properties["t"]["region"]) == ("k", "north")
    assert len(properties["t"]["UNIQ_KEY"]) == 56
    assert by_tag[None]["body"] == b"x" * 9000


def test_sharding_keys_choose_queues_as_java_does(cluster: ClusterThread, topic: str) -> None:
    """Equal keys go to one queue, in their order."""
    plan = plan_write(parse_sink_options(write_options(cluster, topic), stream=False))
    keys = [f"order-{number % 7}" for number in range(600)]
    write(plan, rows(600, sharding_key=keys))
    found = stored(cluster, topic, "body", "broker", "queue_id", "queue_offset", "properties")
    queues = sorted(
        MessageQueue(topic, f"broker-{name}", number) for name in "ab" for number in range(2)
    )
    last: dict[str, int] = {}
    for row in sorted(found, key=lambda row: (row["queue_id"], row["queue_offset"])):
        number = int(bytes(row["body"]).split()[1])
        chosen = by_key(keys[number])(queues, Message(topic, b"x"))
        assert row["queue_id"] == chosen.queue_id
        assert dict(row["properties"])["__SHARDINGKEY"] == keys[number]
        assert last.get(keys[number], -1) < number
        last[keys[number]] = number
    assert len(found) == 600


@pytest.mark.parametrize(
    ("kind", "keys", "hashes"),
    [
        (pa.int64(), [5, -1, 1 << 33, 1 << 31, None], [5, 0, 2, -(1 << 31), None]),
        (pa.int32(), [5, -1, None], [5, -1, None]),
    ],
)
def test_numbers_as_sharding_keys(
    kind: pa.DataType, keys: list[int | None], hashes: list[int | None]
) -> None:
    """A bigint counts as Java's Long does, an int as an Integer; the property tells its value."""
    columns = {"body": [b"x"] * len(keys), "sharding_key": pa.array(keys, kind)}
    found = list(rows_of(pa.RecordBatch.from_pydict(columns), "orders"))
    assert [row.sharding_key for row in found] == hashes
    named = [row.message.properties.get("__SHARDINGKEY") for row in found]
    assert named == [None if key is None else str(key) for key in keys]


def write_options(cluster: ClusterThread, topic: str) -> dict[str, str]:
    """The options of a write."""
    return {"namesrv": cluster.namesrv_addr, "topic": topic}


def test_delayed_rows_go_one_by_one(cluster: ClusterThread, topic: str) -> None:
    """As brokers take them."""
    plan = plan_write(parse_sink_options(write_options(cluster, topic), stream=False))
    assert write(plan, rows(4, delay_level=[1, None, 1, None])).sent == 4
    assert bodies(cluster, topic) == Counter([b"row 1", b"row 3"])


def test_task_that_is_tried_again_repeats_nothing(cluster: ClusterThread, topic: str) -> None:
    """However far the first attempt came, whatever others write, in whatever order rows come."""
    plan = plan_write(parse_sink_options(write_options(cluster, topic), stream=False))
    write(plan, rows(1700))  # ... and then it dies, before it has sent the others
    write(plan, rows(50, 5000), partition=1)
    again = write(plan, rows(1300, 700), rows(700), attempt=1)
    assert (again.sent, again.found) == (300, 1700)
    assert bodies(cluster, topic) == once(2000) + Counter(
        b"row %d" % number for number in range(5000, 5050)
    )


def test_equal_rows_are_kept_apart(cluster: ClusterThread, topic: str) -> None:
    """As many as there are, in each attempt and partition."""
    plan = plan_write(parse_sink_options(write_options(cluster, topic), stream=False))
    same = pa.RecordBatch.from_pydict({"body": [b"same"] * 10})
    write(plan, same.slice(0, 4))
    write(plan, same.slice(0, 3), partition=1)
    assert write(plan, same, attempt=1).found == 4
    assert bodies(cluster, topic) == Counter({b"same": 13})


def test_restarted_driver_repeats_nothing(cluster: ClusterThread, topic: str) -> None:
    """A micro-batch that was begun by a driver that died, and the batches around it."""
    parsed = parse_sink_options(options(cluster, topic), stream=True)
    write(plan_batch(parsed), rows(500))
    note_batch(parsed, QUERY, 0, {topic})
    write(plan_batch(parsed), rows(300, 500), batch=1)  # ... of 500; and the driver dies
    write(
        plan_write(parse_sink_options(write_options(cluster, topic), stream=False)), rows(9, 7000)
    )
    restarted = plan_batch(parsed)
    assert write(restarted, rows(500, 500), batch=1).found == 300
    note_batch(parsed, QUERY, 1, {topic})
    after = write(plan_batch(parsed), rows(500, 1000), batch=2)
    assert (after.sent, after.found) == (500, 0)
    found = bodies(cluster, topic)
    assert found == once(1500) + Counter(b"row %d" % number for number in range(7000, 7009))


def test_batch_whose_end_was_noted_is_not_written_again(cluster: ClusterThread, topic: str) -> None:
    """The driver died between the sink's commit and Spark's own."""
    parsed = parse_sink_options(options(cluster, topic), stream=True)
    write(plan_batch(parsed), rows(20))
    note_batch(parsed, QUERY, 0, {topic})
    again = write(plan_batch(parsed), rows(20))
    assert (again.sent, again.found) == (0, 20)
    assert bodies(cluster, topic) == once(20)


def test_batch_of_the_same_number_with_other_rows_is_written(
    cluster: ClusterThread, topic: str
) -> None:
    """A checkpoint was put back, and its source has other rows now; in part, or all of them."""
    parsed = parse_sink_options(options(cluster, topic), stream=True)
    for first, found in ((0, 0), (10, 10), (100, 0)):
        report = write(plan_batch(parsed), rows(20, first))
        assert (report.sent, report.found) == (20 - found, found)
        note_batch(parsed, QUERY, 0, {topic})
    assert bodies(cluster, topic) == once(30) + Counter(b"row %d" % at for at in range(100, 120))


@pytest.mark.parametrize("kept", [100, 1])
@pytest.mark.parametrize("killed", [False, True])
def test_checkpoint_that_was_put_back_by_several_batches_loses_nothing(
    cluster: ClusterThread, topic: str, kept: int, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored is found, however long ago; what was not is written; none comes twice."""
    monkeypatch.setattr(sink_record, "BATCHES_KEPT", kept)
    monkeypatch.setattr(sink_plan, "sleep", lambda _: None)
    parsed = parse_sink_options(options(cluster, topic), stream=True)
    for batch in range(4):
        write(plan_batch(parsed), rows(20, 20 * batch), batch=batch)
        note_batch(parsed, QUERY, batch, {topic})
    found = {1: (20, 20), 2: (5, 200), 3: (20, 60), 4: (0, 80)}
    for batch, (known, first) in found.items():
        whole = [rows(20, first)] if known in (0, 20) else [rows(5, 40), rows(15, first)]
        if killed:
            write(plan_batch(parsed), rows(7, 500 + batch), batch=batch, partition=9)
        report = write(plan_batch(parsed), *whole, batch=batch)
        if kept == 100 or batch in (1, 4):
            assert (report.sent, report.found) == (20 - known, known)
        note_batch(parsed, QUERY, batch, {topic})
    stored_bodies = bodies(cluster, topic)
    assert {b"row %d" % at for at in (*range(100), *range(200, 215))} <= stored_bodies.keys()
    if kept == 100 and not killed:
        assert stored_bodies == once(100) + Counter(b"row %d" % at for at in range(200, 215))


def test_first_batch_of_a_topic_column(cluster: ClusterThread, topic: str) -> None:
    """Later ones find what was stored; a task that is tried again does at once."""
    parsed = parse_sink_options(options(cluster, None, topic), stream=True)
    batch = rows(40, topic=[topic] * 40)
    first = plan_batch(parsed)
    assert first.ends == {}
    write(first, batch.slice(0, 10))
    assert write(first, batch, attempt=1).found == 10
    note_batch(parsed, QUERY, 0, {topic})
    batch = rows(40, 40, topic=[topic] * 40)
    write(plan_batch(parsed), batch.slice(0, 15), batch=1)
    assert write(plan_batch(parsed), batch, batch=1).found == 15
    assert bodies(cluster, topic) == once(80)


def test_rows_that_no_broker_takes(cluster: ClusterThread, topic: str) -> None:
    """They are named."""
    plan = plan_write(parse_sink_options(write_options(cluster, topic), stream=False))
    with pytest.raises(InvalidMessage, match=r"row 3 of partition 2 cannot be sent.*body is null"):
        write(plan, pa.RecordBatch.from_pydict({"body": [b"1", b"2", None]}), partition=2)
    with pytest.raises(InvalidMessage, match="limit is 4194304"):
        write(plan, pa.RecordBatch.from_pydict({"body": [b"x" * (5 << 20)]}))


def test_topic_that_cannot_be_made() -> None:
    """It is refused on the driver."""
    settings = {"auto_create_topic_enable": False}
    with ClusterThread(broker_settings=settings) as cluster:
        given = parse_sink_options(write_options(cluster, "absent"), stream=False)
        with pytest.raises(OptionError, match="option topic: no route to topic 'absent'"):
            plan_write(given)


def test_ids_depend_on_everything_that_is_written() -> None:
    """Query, batch, partition and each part of a message; equal messages are numbered."""
    attempted = Attempted("sink", QUERY, 3, 1)
    message = Message("orders", b"body", tags="a", keys="k", properties={"p": "1"}, delay_level=1)
    others = [replace_message(message, **change) for change in CHANGES]
    places = [attempted._replace(**{name: value}) for name, value in PLACES.items()]
    ids = RowIds(attempted)
    seen = [ids.next(each) for each in [message, message, *others]]
    seen += [RowIds(place).next(message) for place in places]
    assert len(set(seen)) == len(seen)
    assert {len(each) for each in seen} == {56}
    assert all(each.startswith(attempted.prefix) for each in seen[: -len(places)])
    assert RowIds(attempted).next(message) == seen[0]


@pytest.mark.parametrize("exact", [1 << 18, 100])
def test_ids_in_another_order(monkeypatch: pytest.MonkeyPatch, exact: int) -> None:
    """The same ones, as far as rows can be told apart; and never one for two of them."""
    monkeypatch.setattr(sink_ids, "EXACT_ROWS", exact)
    attempted = Attempted("sink", QUERY, 3, 1)
    messages = [Message("orders", b"%d" % (number % 15_000)) for number in range(20_000)]
    one, other = RowIds(attempted), RowIds(attempted)
    forwards = {one.next(each) for each in messages}
    backwards = {other.next(each) for each in reversed(messages)}
    assert len(forwards) == len(backwards) == len(messages)
    assert exact == 100 or forwards == backwards


CHANGES: list[dict[str, object]] = [
    {"topic": "order"},
    {"body": b"bod"},
    {"tags": None},
    {"keys": ("k", "2")},
    {"properties": {"p": "2"}},
    {"delay_level": 2},
]
PLACES: dict[str, Any] = {"sink": "other", "query": "other", "batch": 4, "partition": 2}


def replace_message(message: Message, **change: object) -> Message:
    """The message with another value somewhere."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**(fields | change))
