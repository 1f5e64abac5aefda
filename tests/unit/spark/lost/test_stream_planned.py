"""A topic or store that is made anew between the plan of a micro-batch and the tasks' reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from support.disks.stores import Stored, StoreWriter
from support.lake.fake_spark import Checkpoint, reader_of, run

from aerobee.spark.errors import DataLost
from aerobee.spark.offsets import OffsetsTree
from aerobee.spark.streams.reader import QueueStreamReader

OPTIONS = {"startingOffsets": "earliest"}
GOES_ON = {**OPTIONS, "failOnDataLoss": "false"}
ANOTHER = "is another one now"


class Store:
    """A store of topics with a queue each; bodies are numbers that never repeat."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        self.writer = StoreWriter(root, 4096)

    def add(self, count: int, *topics: str) -> None:
        """More messages of each topic, a second between them."""
        for number in range(self.written, self.written + count):
            for topic in topics or ("orders",):
                self.writer.append(
                    Stored(
                        topic=topic,
                        body=b"%05d" % number,
                        store_timestamp=1_000_000 + number * 1000,
                    )
                )
        self.written += count
        self.writer.close()

    def remake(self, count: int) -> None:
        """Delete the topic orders and make it again, with so many messages."""
        shutil.rmtree(self.root / "consumequeue" / "orders")
        del self.writer.entries["orders", 0]
        self.add(count)

    def cut(self, count: int) -> None:
        """Lose the last messages of the topic orders, which are the log's."""
        entries = self.writer.entries["orders", 0]
        self.writer.position = entries[-count][0]
        base = self.writer.position - self.writer.position % 4096
        del self.writer.segments[base][self.writer.position - base :]
        for later in [each for each in self.writer.segments if each > base]:
            del self.writer.segments[later]
            (self.root / "commitlog" / f"{later:020d}").unlink()
        del entries[-count:]
        self.writer.close()

    def begin(self, count: int, *topics: str, segment_bytes: int = 0) -> None:
        """Another store in its place, with so many messages."""
        shutil.rmtree(self.root)
        self.writer = StoreWriter(self.root, segment_bytes or self.writer.segment_bytes)
        self.add(count, *topics)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One with nothing in it."""
    return Store(tmp_path / "s")


def after_planning(reader: QueueStreamReader, happens: Callable[[], None]) -> QueueStreamReader:
    """Let something happen once, before the tasks of the first micro-batch with messages read."""
    partitions, left = reader.partitions, [happens]

    def planned(start: OffsetsTree, end: OffsetsTree) -> Sequence[InputPartition]:
        found = partitions(start, end)
        if found and left:
            left.pop()()
        return found

    reader.partitions = planned  # type: ignore[method-assign]
    return reader


def read(checkpoint: Checkpoint, topic: str = "orders") -> list[int]:
    """The numbers of a topic's messages that have come."""
    return [int(row["body"]) for row in checkpoint.rows() if row["topic"] == topic]


@pytest.mark.parametrize("columns", ["topic, body", "topic, queue_offset"])
@pytest.mark.parametrize("count", [3, 20, 60])
def test_topic_made_anew_after_a_plan_is_told(store: Store, count: int, columns: str) -> None:
    """However far it has grown, and also where the ConsumeQueues alone are read."""
    store.add(20)
    checkpoint = Checkpoint()
    reader = reader_of(store.root, columns=columns, **OPTIONS)
    with pytest.raises(DataLost, match=ANOTHER):
        run(after_planning(reader, lambda: store.remake(count)), checkpoint)
    assert not checkpoint.rows()


@pytest.mark.parametrize("limit", ["7", "1000"])
@pytest.mark.parametrize("count", [3, 20, 60])
def test_messages_of_a_topic_made_anew_after_a_plan_come_once(
    store: Store, count: int, limit: str
) -> None:
    """With failOnDataLoss=false; another topic's come as ever."""
    store.add(20, "orders", "pay")
    checkpoint = Checkpoint()
    reader = reader_of(store.root, maxOffsetsPerTrigger=limit, **GOES_ON)
    run(after_planning(reader, lambda: store.remake(count)), checkpoint)
    assert sorted(read(checkpoint, "pay")) == list(range(20))
    assert read(checkpoint) == list(range(20, 20 + count))


def test_store_made_anew_after_a_plan_is_told(store: Store) -> None:
    """With messages of the same sizes, which stand at the same places of its log."""
    store.add(20, "orders", "pay")
    checkpoint = Checkpoint()

    def again() -> None:
        store.begin(20, "orders", "pay")

    with pytest.raises(DataLost, match=ANOTHER):
        run(after_planning(reader_of(store.root, **OPTIONS), again), checkpoint)
    assert not checkpoint.rows()
    checkpoint = Checkpoint()
    run(after_planning(reader_of(store.root, **GOES_ON), again), checkpoint)
    assert read(checkpoint) == read(checkpoint, "pay") == list(range(40, 60))


@pytest.mark.parametrize("anew", ["topic", "store"])
def test_what_is_made_anew_under_a_task_is_told(store: Store, anew: str) -> None:
    """What was read before is of the first one, and is kept with failOnDataLoss=false."""
    store.writer = StoreWriter(store.root, 1 << 23)
    store.add(20_000)
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint, batches_max=1)  # where the query starts
    start = json.loads(checkpoint.offsets[-1])
    readers = [reader_of(store.root, **options) for options in (OPTIONS, GOES_ON)]
    rows: list[list[int]] = [[], []]
    reads = []
    for reader, numbers in zip(readers, rows, strict=True):
        end = reader.latestOffset(start, ReadMaxRows(20_000))
        (partition,) = reader.partitions(start, end)
        reads.append(reader.read(partition))
        numbers += bodies(next(reads[-1]))
    if anew == "topic":
        store.remake(3)
    else:
        store.begin(20_000)
    with pytest.raises(DataLost, match=ANOTHER):
        list(reads[0])
    for batch in reads[1]:
        rows[1] += bodies(batch)
    assert rows[1] == list(range(len(rows[1])))
    assert 0 < len(rows[0]) <= len(rows[1])


def test_topic_whose_new_messages_are_in_other_files_is_told(store: Store) -> None:
    """Of which the plan knew nothing."""
    store.add(20)
    checkpoint = Checkpoint()

    def change() -> None:
        store.add(50, "pay")
        store.remake(30)

    with pytest.raises(DataLost, match=ANOTHER):
        run(after_planning(reader_of(store.root, **OPTIONS), change), checkpoint)
    assert len(checkpoint.offsets) > checkpoint.commits, "the next look tells it, too, but too late"


def test_deleted_topic_is_no_other_one(store: Store) -> None:
    """Its messages are gone, and that is what is told."""
    store.add(20)
    queues = store.root / "consumequeue" / "orders"
    reader = after_planning(reader_of(store.root, **OPTIONS), lambda: shutil.rmtree(queues))
    with pytest.raises(DataLost, match="20 messages that were asked for are not in the store"):
        run(reader, Checkpoint())


def test_log_that_lost_its_end_after_a_plan_gives_what_is_left(store: Store) -> None:
    """As with a machine's power: queues that are whole, and of the others what is there."""
    store.add(10, "pay")
    store.add(20)
    checkpoint = Checkpoint()
    with pytest.raises(DataLost, match=ANOTHER):
        run(after_planning(reader_of(store.root, **OPTIONS), lambda: store.cut(5)), checkpoint)
    checkpoint = Checkpoint()
    store.add(5)
    run(after_planning(reader_of(store.root, **GOES_ON), lambda: store.cut(5)), checkpoint)
    assert read(checkpoint, "pay") == list(range(10))
    assert read(checkpoint) == list(range(10, 25))


def bodies(batch: Any) -> list[int]:
    """The numbers in a batch."""
    return [int(body) for body in batch["body"].to_pylist()]


@pytest.mark.parametrize("before", [20, 60])  # the latter end in a file that is not there then
@pytest.mark.parametrize("count", [5, 40, 100])
def test_nothing_of_a_store_of_other_files_passes_for_what_was_planned(
    store: Store, count: int, before: int
) -> None:
    """Wherever its messages are; they come once."""
    store.add(before, "orders", "pay")
    reader = reader_of(store.root, **GOES_ON)
    checkpoint = Checkpoint()

    def again() -> None:
        store.begin(count, "pay", "orders", "else", segment_bytes=8192)

    run(after_planning(reader, again), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    numbers = list(range(before, before + count))
    assert read(checkpoint) == read(checkpoint, "pay") == numbers


def test_what_goes_away_after_a_plan_is_no_other_topic(store: Store) -> None:
    """Files that retention takes and messages that come: what is left is read."""
    store.add(200)
    checkpoint = Checkpoint()

    def change() -> None:
        store.add(100)
        base = min(store.writer.segments)
        (store.root / "commitlog" / f"{base:020d}").unlink()

    with pytest.raises(DataLost, match="retention"):
        run(after_planning(reader_of(store.root, **OPTIONS), change), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    numbers = read(checkpoint)
    assert numbers == list(range(numbers[0], 300))
    assert 0 < numbers[0] < 100
