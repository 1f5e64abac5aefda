"""Streams tell a topic or a store that was made anew from the one that they were reading."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.fake_spark import Checkpoint, Crash, reader_of, run

from aerobee.spark.errors import DataLost
from aerobee.spark.offsets import MARKS

ANOTHER = r"queue orders s:0, read up to offset \d+, is another one now"
OPTIONS = {"startingOffsets": "earliest"}
GOES_ON = {**OPTIONS, "failOnDataLoss": "false"}


class Store:
    """A store whose topic can be deleted and made again; bodies are numbers that never repeat."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        self.begin()

    def begin(self) -> None:
        """An empty log: after a disk was replaced."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.writer = StoreWriter(self.root, 4096)

    def add(self, count: int, queues: int = 1, topic: str = "orders") -> None:
        """More messages, a second between them."""
        for number in range(self.written, self.written + count):
            self.writer.append(
                Stored(
                    topic=topic,
                    queue_id=number % queues,
                    body=b"%05d" % number,
                    store_timestamp=1_000_000 + number * 1000,
                )
            )
        self.written += count
        self.writer.close()

    def remake(self, count: int, topic: str = "orders") -> None:
        """Delete the topic and make it again, with so many messages."""
        shutil.rmtree(self.root / "consumequeue" / topic)
        for key in [key for key in self.writer.entries if key[0] == topic]:
            del self.writer.entries[key]
        self.add(count, topic=topic)

    def cut(self, count: int) -> None:
        """Lose the last messages of a single queue, as with a machine's power."""
        entries = self.writer.entries["orders", 0]
        self.writer.position = entries[-count][0]
        base = self.writer.position - self.writer.position % 4096
        del self.writer.segments[base][self.writer.position - base :]
        for later in [each for each in self.writer.segments if each > base]:
            del self.writer.segments[later]
            (self.root / "commitlog" / f"{later:020d}").unlink()
        del entries[-count:]
        self.writer.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One with ten messages."""
    made = Store(tmp_path / "s")
    made.add(10)
    return made


def read(checkpoint: Checkpoint) -> list[int]:
    """The numbers of the messages that have come."""
    return [int(row["body"]) for row in checkpoint.rows()]


@pytest.mark.parametrize("count", [3, 10, 15])
def test_topic_made_anew_before_a_restart_is_noticed(store: Store, count: int) -> None:
    """However far it has grown, past the checkpoint too; going on reads all of the new one."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.remake(count)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    assert read(checkpoint) == [*range(10), *range(10, 10 + count)]
    store.add(4)
    run(reader_of(store.root, **OPTIONS), checkpoint)
    assert read(checkpoint) == list(range(14 + count)), "the new one is the one that is known"


def once(point: str, work: Callable[[], None]) -> Callable[[str], bool]:
    """Something that happens while a query runs, the second time that it gets somewhere."""
    left = [1, 0]

    def happens(name: str) -> bool:
        if name == point and left:
            if not left.pop():
                return False
            work()
        return False

    return happens


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("retention", [True, False])
def test_topic_made_anew_while_a_query_runs_is_noticed(
    store: Store, marked: bool, retention: bool
) -> None:
    """Also while retention takes files, and of a query whose checkpoint has no marks yet."""
    store.add(190)

    def change() -> None:
        if not marked:
            checkpoint.offsets[:] = [without_marks(text) for text in checkpoint.offsets]
        store.remake(300)
        if retention:
            base = min(store.writer.segments)
            del store.writer.segments[base]
            (store.root / "commitlog" / f"{base:020d}").unlink()

    for options in (OPTIONS, GOES_ON):
        checkpoint = Checkpoint()
        if options is OPTIONS:
            with pytest.raises(DataLost, match=ANOTHER):
                run(reader_of(store.root, **options), checkpoint, crash=once("committed", change))
            continue
        start = store.written - 300  # after the first change
        run(reader_of(store.root, **options), checkpoint, crash=once("committed", change))
        assert read(checkpoint) == list(range(start, store.written))


def without_marks(text: str) -> str:
    """Offsets as an early version has written them."""
    tree = json.loads(text)
    tree.pop(MARKS, None)
    return json.dumps(tree)


def test_planned_batch_is_not_read_from_another_queue(store: Store) -> None:
    """Whoever was killed between planning and reading finds the topic made anew."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.add(5)
    with pytest.raises(Crash):
        run(reader_of(store.root, **OPTIONS), checkpoint, crash=lambda name: name == "planned")
    store.remake(20)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    assert read(checkpoint) == [*range(10), *range(15, 35)]


def test_checkpoints_of_early_versions_go_on(store: Store) -> None:
    """They have no marks, and get them with the next micro-batch."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    checkpoint.offsets = [without_marks(text) for text in checkpoint.offsets]
    store.add(5)
    run(reader_of(store.root, **OPTIONS), checkpoint)
    assert read(checkpoint) == list(range(15))
    batches = len(checkpoint.offsets)
    run(reader_of(store.root, **OPTIONS), checkpoint)
    assert len(checkpoint.offsets) == batches, "what is known does not change"
    store.remake(20)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)


def test_store_made_anew_with_records_of_the_same_size_is_noticed(store: Store) -> None:
    """Positions are the same then; the time at which a message was stored never comes again."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.begin()
    store.add(15)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    assert read(checkpoint) == list(range(25))


def test_log_that_lost_its_end_goes_on_behind_what_was_read(store: Store) -> None:
    """Nothing of what is left comes twice, whatever has come in the place of what was lost."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.cut(3)
    store.add(6)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    assert read(checkpoint) == list(range(16))


def test_queues_whose_folder_is_empty_for_a_while_are_not_read_again(store: Store) -> None:
    """As where a disk is not mounted, or is restored later: none was deleted by a broker."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    queues, away = store.root / "consumequeue", store.root / "away"
    queues.rename(away)
    queues.mkdir()
    with pytest.raises(DataLost, match="queue orders s:0, read up to offset 10, is not there"):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    queues.rmdir()
    run(reader_of(store.root, **GOES_ON), checkpoint)
    away.rename(queues)
    store.add(3)
    run(reader_of(store.root, **GOES_ON), checkpoint)
    assert read(checkpoint) == list(range(13))


def test_what_a_query_does_not_read_now_keeps_its_marks(store: Store) -> None:
    """A topic that was made anew meanwhile is noticed when it is asked for again."""
    store.add(4, topic="pay")
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.add(4)
    store.remake(9, topic="pay")
    run(reader_of(store.root, subscribe="orders"), checkpoint)
    with pytest.raises(DataLost, match="queue pay s:0, read up to offset 4, is another one"):
        run(reader_of(store.root, **OPTIONS), checkpoint)


def test_offsets_of_a_progress_can_start_another_query(store: Store) -> None:
    """Marks in what is copied from there are passed over."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    store.add(5)
    later = Checkpoint()
    run(reader_of(store.root, startingOffsets=checkpoint.offsets[-1]), later)
    assert read(later) == list(range(10, 15))


def test_checkpoint_of_an_early_version_is_marked_though_nothing_is_new(store: Store) -> None:
    """So that the topic is told from its successor, which may have grown past the offset."""
    checkpoint = Checkpoint()
    run(reader_of(store.root, **OPTIONS), checkpoint)
    checkpoint.offsets = [
        json.dumps({name: tree for name, tree in json.loads(text).items() if name != MARKS})
        for text in checkpoint.offsets
    ]
    for _ in range(2):
        run(reader_of(store.root, **OPTIONS), checkpoint)
    assert MARKS in json.loads(checkpoint.offsets[-1])
    assert len(checkpoint.offsets) == 3, "one micro-batch writes them down"
    store.remake(15)
    with pytest.raises(DataLost, match=ANOTHER):
        run(reader_of(store.root, **OPTIONS), checkpoint)
