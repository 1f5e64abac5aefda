"""The stream reader as Spark calls it: where it starts, what it freezes, and kills at any point."""

from __future__ import annotations

import pickle
import shutil
import zlib
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from support.disks.stores import Stored, StoreWriter
from support.lake.fake_spark import Checkpoint, offsets, reader_of, run

from aerobee.spark.errors import DataLost, OptionError, StoreUnreadable
from aerobee.spark.source import RocketMQSource


class Growing:
    """A store that a test adds messages to; `position` is what has come of each queue."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.writer = StoreWriter(root, 4096)
        self.add(0)

    def add(self, count: int, queues: int = 3, topic: str = "orders") -> None:
        """Write some messages, a second between them."""
        for _ in range(count):
            number = sum(map(len, self.writer.entries.values()))
            self.writer.append(
                Stored(
                    topic=topic,
                    queue_id=number % queues,
                    body=b"%d" % number,
                    store_timestamp=1_000_000 + number * 1000,
                )
            )
        self.writer.close()
        (self.root / "consumequeue").mkdir(exist_ok=True)

    def ends(self) -> dict[tuple[str, int], int]:
        """How many messages each queue has."""
        return {key: len(entries) for key, entries in self.writer.entries.items()}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Growing:
    """A store with no messages yet, and with small files."""
    monkeypatch.setattr("support.disks.stores.QUEUE_FILE_ENTRIES", 50)
    return Growing(tmp_path / "s")


def test_default_is_what_comes_after_the_start(store: Growing) -> None:
    """As for Spark's Kafka source; the first micro-batch only writes down where that is."""
    store.add(30)
    checkpoint = Checkpoint()
    run(reader_of(store.root), checkpoint)
    assert checkpoint.rows() == []
    (text,) = checkpoint.offsets
    assert text.startswith('{"orders": {"s:0": 10, "s:1": 10, "s:2": 10}, "@last": {"orders": {')
    store.add(6)
    run(reader_of(store.root), checkpoint)
    assert offsets(checkpoint) == {("orders", number): [10, 11] for number in range(3)}


def test_starting_offsets_and_timestamps(store: Growing) -> None:
    """Earliest, numbers, and the first message that was stored at a time, or later."""
    store.add(30)
    for options, expected in (
        ({"startingOffsets": "earliest"}, (0, 0, 0)),
        ({"startingOffsets": '{"orders": {"0": 7, "1": -1}}'}, (7, 10, 0)),
        ({"startingTimestamp": "1015500"}, (6, 5, 5)),
        ({"startingTimestamp": "1015500", "startingOffsets": '{"orders": {"2": 8}}'}, (6, 5, 8)),
        ({"startingTimestamp": "9999999"}, (10, 10, 10)),
    ):
        checkpoint = Checkpoint()
        run(reader_of(store.root, **options), checkpoint)
        assert offsets(checkpoint) == {
            ("orders", number): list(range(first, 10))
            for number, first in enumerate(expected)
            if first < 10
        }


def test_limits_are_options_and_told_to_spark(store: Growing) -> None:
    """Both hold at once; "all available" means all."""
    store.add(90)
    both = {"maxOffsetsPerTrigger": "9", "maxBytesPerTrigger": "500", "startingOffsets": "earliest"}
    assert reader_of(store.root, **both).getDefaultReadLimit() == ReadMaxRows(9)
    only = {"maxBytesPerTrigger": "1k"}
    assert reader_of(store.root, **only).getDefaultReadLimit() == ReadMaxBytes(1024)
    size = store.writer.entries["orders", 0][0][1]
    for options, limit, count_max in (
        (both, None, 500 // size),
        ({"startingOffsets": "earliest"}, ReadMaxRows(7), 7),
        ({"startingOffsets": "earliest"}, ReadMaxBytes(10 * size + 50), 10),
        ({"startingOffsets": "earliest"}, None, 90),
        (both, ReadAllAvailable(), 90),
    ):
        checkpoint = Checkpoint()
        run(reader_of(store.root, **options), checkpoint, limit=limit)
        counts = [len(rows) for rows in checkpoint.sink.values()]
        assert sum(counts) == 90
        assert max(counts) <= count_max
        assert len(counts) <= 90 // count_max + 12


def test_one_trigger_reads_what_there_is(store: Growing) -> None:
    """Trigger.Once: a single micro-batch, with no limit, and none more than it planned."""
    store.add(30)
    checkpoint = Checkpoint()
    reader = reader_of(store.root, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    run(reader, checkpoint, limit=ReadAllAvailable(), batches_max=1)
    assert len(checkpoint.rows()) == 30
    later = Checkpoint()
    run(reader_of(store.root), later, limit=ReadAllAvailable(), batches_max=1)
    store.add(3)
    run(reader_of(store.root), later, limit=ReadAllAvailable(), batches_max=1)
    assert len(later.rows()) == 3


def test_available_now_ends_where_it_was_prepared(store: Growing) -> None:
    """Messages and queues that come while it runs are the next run's."""
    store.add(30)
    checkpoint = Checkpoint()
    for run_number in range(3):
        reader = reader_of(store.root, startingOffsets="earliest", maxOffsetsPerTrigger="8")
        reader.prepareForTriggerAvailableNow()
        expected = sum(store.ends().values())
        store.add(20, queues=4 + run_number)
        run(reader, checkpoint)
        assert len(checkpoint.rows()) == expected
        assert reader.reportLatestOffset() is not None


def test_reader_goes_to_tasks_and_reports(store: Growing) -> None:
    """It can be pickled before anything is open; the report is of the last look."""
    store.add(9)
    reader = pickle.loads(pickle.dumps(reader_of(store.root)))
    assert reader.reportLatestOffset() is None
    assert reader.initialOffset() == {"orders": {"s:0": 3, "s:1": 3, "s:2": 3}}
    store.add(3)
    assert reader.initialOffset() == {"orders": {"s:0": 3, "s:1": 3, "s:2": 3}}
    assert reader.reportLatestOffset() == {"orders": {"s:0": 3, "s:1": 3, "s:2": 3}}
    assert list(reader.read(None)) == []
    reader.stop()
    reader.stop()


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_body_that_cannot_be_unpacked_does_not_stop_a_stream(store: Growing, mode: str) -> None:
    """Its producer said that it is compressed, and nobody could ever read on: it comes as it is."""
    for body, flag in ((b"a", 0), (b"no zlib", 1), (zlib.compress(b"packed"), 1), (b"z", 0)):
        store.writer.append(Stored(body=body, sys_flag=flag))
    store.add(0)
    checkpoint = Checkpoint()
    options = {"startingOffsets": "earliest", "decompress": "true", "mode": mode}
    run(reader_of(store.root, **options), checkpoint)
    assert [row["body"] for row in checkpoint.rows()] == [b"a", b"no zlib", b"packed", b"z"]


def test_deleted_topic_ends_the_query_or_is_forgotten(store: Growing) -> None:
    """And one of the same name that comes later is read from its beginning."""
    store.add(30)
    store.add(4, topic="gone", queues=1)
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    checkpoint = Checkpoint()
    run(reader_of(store.root, **options), checkpoint)
    shutil.rmtree(store.root / "consumequeue" / "gone")
    with pytest.raises(DataLost, match="gone s:0, read up to offset 4"):
        run(reader_of(store.root), checkpoint)
    run(reader_of(store.root, **options), checkpoint)
    assert "gone" not in checkpoint.offsets[-1]
    store.writer.entries["gone", 0].clear()
    store.add(2, topic="gone", queues=1)
    run(reader_of(store.root, **options), checkpoint)
    assert offsets(checkpoint)["gone", 0] == [0, 0, 1, 1, 2, 3]


def test_topics_that_are_not_asked_for_any_more_keep_their_place(store: Growing) -> None:
    """A restart with another choice is no loss, and one with the first goes on where it was."""
    store.add(3)
    store.add(2, topic="payments", queues=1)
    checkpoint = Checkpoint()
    run(reader_of(store.root, startingOffsets="earliest"), checkpoint)
    store.add(3)
    store.add(2, topic="payments", queues=1)
    run(reader_of(store.root, subscribe="payments"), checkpoint)
    assert offsets(checkpoint) == {
        **{("orders", number): [0] for number in range(3)},
        ("payments", 0): [0, 1, 2, 3],
    }
    run(reader_of(store.root), checkpoint)
    assert len(checkpoint.rows()) == 10


def test_retention_between_two_runs_is_told(store: Growing) -> None:
    """The query ends with the lost ranges, or goes on with what is left."""
    store.add(90)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "9"}
    checkpoint = Checkpoint()
    run(reader_of(store.root, **options), checkpoint, batches_max=2)
    for path in sorted((store.root / "commitlog").iterdir())[:2]:
        path.unlink()
    with pytest.raises(DataLost, match=r"orders s:0 \[3, "):
        run(reader_of(store.root, **options), checkpoint)
    run(reader_of(store.root, **options, failOnDataLoss="false"), checkpoint)
    found = offsets(checkpoint)["orders", 0]
    assert found[:3] == [0, 1, 2]
    assert found[3:] == list(range(found[3], 30))
    assert found[3] > 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is one of spark.read,"),
        ({"endingTimestamp": "5"}, "option endingTimestamp is one of spark.read,"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: '0' is no number"),
        ({"maxBytesPerTrigger": "many"}, "option maxBytesPerTrigger: 'many' is no size"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({"startingOffsets": "first"}, "option startingOffsets: 'first'"),
    ],
)
def test_wrong_options_are_refused(store: Growing, options: dict[str, str], text: str) -> None:
    """When the query starts, by name."""
    with pytest.raises(OptionError, match=text):
        reader_of(store.root, **options)


def test_options_of_streams_are_refused_in_batches(store: Growing) -> None:
    """They would be without effect there."""
    source = RocketMQSource({"path": str(store.root), "maxOffsetsPerTrigger": "9"})
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger is one of spark"):
        source.reader(source.schema())


def test_offsets_that_name_what_is_not_read_are_refused(store: Growing) -> None:
    """Queues of other topics and brokers, and stores that there are not."""
    store.add(3)
    other = '{"payments": {"0": 1}}'
    with pytest.raises(OptionError, match="payments s:0 is not among those to read"):
        reader_of(store.root, subscribe="orders", startingOffsets=other).initialOffset()
    with pytest.raises(OptionError, match="there is no broker 't'"):
        reader_of(store.root, startingOffsets='{"orders": {"t:0": 1}}').initialOffset()
    with pytest.raises(StoreUnreadable):
        reader_of(store.root, path=str(store.root / "none-*")).initialOffset()


def test_topics_that_rocketmq_keeps_are_read_where_they_are_assigned(store: Growing) -> None:
    """A queue that is named is read, whatever topic it belongs to."""
    store.add(3, topic="%RETRY%g", queues=1)
    assign = {"assign": '{"%RETRY%g": ["0"]}', "startingOffsets": "earliest"}
    checkpoint = Checkpoint()
    run(reader_of(store.root, **assign), checkpoint)
    assert offsets(checkpoint) == {("%RETRY%g", 0): [0, 1, 2]}
