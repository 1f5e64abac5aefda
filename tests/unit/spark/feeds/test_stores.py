"""Stores that are followed: what a look finds is what a search would, and costs next to nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter, read_log

from aerobee.spark.at_rest import log_end, queue_ranges
from aerobee.spark.at_rest.log_end import find_end
from aerobee.spark.at_rest.log_files import LogSegment, list_segments
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_bounds
from aerobee.spark.at_rest.stores import find_stores
from aerobee.spark.errors import OptionError, StoreUnreadable
from aerobee.spark.feeds import followed_log, followed_queues
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.feeds.followed_log import LogTail
from aerobee.spark.feeds.stores import StoreFeed
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.query import Use, parse_options
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.selection import EVERYTHING
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

HOSTS = bytes([127, 0, 0, 1, 0, 0, 0, 9]) + (10**12).to_bytes(8, "big")
HOSTS += bytes([127, 0, 0, 1, 0, 0, 0, 9]) + bytes(12)


def feed_of(path: Path | str, **options: str) -> StoreFeed:
    """The feed of a query."""
    return StoreFeed(parse_options({"path": str(path), **options}, Use.STREAM))


def written(root: Path, count: int, *, first: int = 0, segment_bytes: int = 4096) -> StoreWriter:
    """A store at rest, one second between its messages."""
    writer = StoreWriter(root, segment_bytes, first)
    for number in range(count):
        writer.append(
            Stored(queue_id=number % 3, body=bytes(100), store_timestamp=1_000_000 + number * 1000)
        )
    writer.close()
    return writer


@contextmanager
def open_store(root: Path) -> Iterator[MessageStore]:
    """A broker's store, open for writing."""
    settings = StoreSettings(
        root, segment_bytes=1 << 14, queue_file_entries=100, helper_process=False
    )
    store = MessageStore(settings)
    store.open()
    try:
        yield store
    finally:
        store.close()


def append(store: MessageStore, topic: str, count: int, *, commit: bool = True) -> None:
    """Some messages over three queues; not visible without a commit."""
    for number in range(count):
        queue = store.queue(topic, number % 3)
        body = b"b" * (number * 31 % 400)
        store.commit_log.append(queue, 0, 0, 5, HOSTS, body, b"TAGS\x01a\x02", 7)
    if commit:
        store.commit_log.commit()
        store.poll()
    for each in store.queues:  # as the next round does, and an append where memory is full
        each.write_out()


def searched(root: Path) -> tuple[int, dict[BrokerQueue, QueueRange]]:
    """The end and the queues as a batch finds them."""
    state = StoreState.look(find_stores(str(root))[0])
    return state.end, {key: each for key, each in queue_bounds(state).items() if each.end}


def test_followed_store_looks_as_a_search_finds_it(tmp_path: Path) -> None:
    """At every look while a broker's store grows over many files, of the log and of queues."""
    root = tmp_path / "s"
    with open_store(root) as store:
        feed = feed_of(root)
        assert feed.look() == {}
        tail = LogTail(find_stores(str(root))[0])
        for count in (1, 2, 0, 7, 100, 3, 500, 1, 31, 32, 33, 64, 300):
            append(store, "orders", count)
            end, bounds = searched(root)
            assert feed.look() == bounds
            assert tail.look().end == end == store.commit_log.position
        append(store, "orders", 3, commit=False)
        assert feed.look() == bounds, "messages that are not committed have entries, and wait"
        append(store, "payments", 1)
        assert feed.look() == searched(root)[1]
        assert len(feed.look()) == 4


def test_look_at_a_log_that_did_not_grow_reads_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the head behind its end; and what grew is read, not searched for."""
    monkeypatch.setattr(followed_log, "SETTLED_NS", -1)  # what was listed once has not changed
    with open_store(tmp_path / "s") as store:
        append(store, "orders", 1000)
        feed = feed_of(tmp_path / "s")
        before = feed.look()
        searches = [
            (queue_ranges, "find_end"),
            (followed_log, "list_segments"),
            (followed_queues, "ConsumeQueueFiles"),
        ]
        with monkeypatch.context() as patched:
            for module, name in [*searches, (log_end, "scan_blocks")]:
                patched.setattr(module, name, None)
            assert feed.look() == before
        append(store, "orders", 9)
        monkeypatch.setattr(queue_ranges, "find_end", None)
        monkeypatch.setattr(followed_queues, "ConsumeQueueFiles", None)
        assert sum(each.end for each in feed.look().values()) == 1009


def test_queues_of_an_idle_log_are_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may dispatch late; when it has had its time, an idle store costs one read."""
    written(tmp_path / "s", 30)
    now = 10**12
    monkeypatch.setattr("aerobee.spark.feeds.followed_queues.time.monotonic_ns", lambda: now)
    feed = feed_of(tmp_path / "s")
    feed.look()
    looks = []
    advance = followed_queues.QueueWatch._advance

    def counted(*given: object) -> bool:
        looks.append(1)
        return advance(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(followed_queues.QueueWatch, "_advance", counted)
    feed.look()
    assert len(looks) == 3, "soon after growth each queue is read again"
    now += followed_queues.LAG_NS + 1
    feed.look()
    assert len(looks) == 6
    for _ in range(10):
        feed.look()
    assert len(looks) == 6
    now += followed_queues.IDLE_NS
    feed.look()
    assert len(looks) == 9


def test_end_that_is_followed_is_the_one_that_is_searched(tmp_path: Path) -> None:
    """From every former end, and with the last record torn at any place."""
    writer = StoreWriter(tmp_path / "s", 1 << 14)
    ends = [0]
    for number in range(150):
        body = bytes([number % 255 + 1]) * (number * 97 % 900)
        writer.append(Stored(body=body, properties=b"A\x01b\x02"))
        ends.append(writer.position)
    writer.append(Stored(body=b"z" * 3000, properties=b"A\x01b\x02"))
    root = writer.close(spare_segments=1)
    segments = list_segments(str(root / "commitlog"))
    for known in ends:
        assert log_end.grown_end(segments, None, known) == writer.position
    last = segments[-2]
    data = Path(last.path).read_bytes()
    start = max(ends[-1], last.base)
    for cut in range(start, writer.position, 61):
        torn = data[: cut - last.base].ljust(len(data), b"\0")
        Path(last.path).write_bytes(torn)
        expected = find_end(segments, None)
        assert expected == ends[-1]
        for known in ends[-3:]:
            assert log_end.grown_end(segments, None, known) == expected


def test_much_that_is_new_is_searched_from_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that fell behind does not read all of the log to know its end."""
    writer = written(tmp_path / "s", 300)
    segments = list_segments(str(tmp_path / "s" / "commitlog"))
    monkeypatch.setattr(log_end, "TAIL_BYTES", 9000)
    monkeypatch.setattr(log_end, "GROWTH_BYTES", 1000)
    searched_from = []

    def search(segments: list[LogSegment], queues_dir: str | None) -> int:
        searched_from.append(segments[0].base)
        return find_end(segments, queues_dir)

    monkeypatch.setattr(log_end, "find_end", search)
    assert log_end.grown_end(segments, None, 0) == writer.position
    assert searched_from == [8192]
    large = StoreWriter(tmp_path / "l", 1 << 16)
    large.append(Stored(body=b"x" * 30_000))
    large.append(Stored(body=b"x" * 300))
    segments = list_segments(str(large.close() / "commitlog"))
    assert log_end.grown_end(segments, None, 0) == large.position


def test_retention_moves_the_start(tmp_path: Path) -> None:
    """The log's first files go, and with them the first offsets."""
    root = tmp_path / "s"
    written(root, 60)
    feed = feed_of(root)
    key = BrokerQueue("s", "orders", 0)
    assert feed.look()[key] == QueueRange(key, 0, 20)
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    assert feed.look() == searched(root)[1]
    assert feed.look()[key].start > 0


def test_queue_that_is_deleted_is_told_from_one_that_is_away(tmp_path: Path) -> None:
    """Its folder is gone from a store that is there; or the store is."""
    written(tmp_path / "a", 6)
    written(tmp_path / "b", 6)
    feed = feed_of(tmp_path / "*")
    keys = set(feed.look())
    assert len(keys) == 6
    shutil.rmtree(tmp_path / "a" / "consumequeue" / "orders" / "1")
    feed.look()
    gone = BrokerQueue("a", "orders", 1)
    assert feed.missing({gone}) == Missing(deleted=frozenset({gone}))
    (tmp_path / "b").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    left = feed.look()
    lost = frozenset(key for key in keys if key.broker == "b")
    assert feed.missing(keys - left.keys()) == Missing(deleted=frozenset({gone}), lost=lost)


def test_queue_made_anew_and_log_that_was_cut_are_noticed(tmp_path: Path) -> None:
    """Another store in the same place, shorter or longer: what was known does not count."""
    root = tmp_path / "s"
    written(root, 60)
    feed = feed_of(root)
    feed.look()
    shutil.rmtree(root)
    writer = StoreWriter(root, 4096)
    for number in range(70):
        writer.append(Stored(queue_id=number % 2, body=bytes(50)))
    writer.close()
    found = feed.look()
    assert found == searched(root)[1]
    assert {each.end for each in found.values()} == {35}


def test_stores_come_and_go_under_a_pattern(tmp_path: Path) -> None:
    """One that is not there yet is no error for a stream that runs, but for one that starts."""
    written(tmp_path / "broker-a" / "store", 6)
    pattern = tmp_path / "broker-*" / "store"
    feed = feed_of(pattern)
    assert {key.broker for key in feed.look()} == {"broker-a"}
    written(tmp_path / "broker-b" / "store", 3)
    assert {key.broker for key in feed.look()} == {"broker-a", "broker-b"}
    assert feed.brokers() == ["broker-a", "broker-b"]
    nothing = feed_of(tmp_path / "none-*")
    assert nothing.look() == {}
    with pytest.raises(StoreUnreadable, match="none-"):
        nothing.check()
    with pytest.raises(StoreUnreadable):
        feed_of(tmp_path / "none").look()


def test_queues_that_there_are_not_are_refused_at_the_start(tmp_path: Path) -> None:
    """As for a batch; and stores without ConsumeQueues."""
    written(tmp_path / "s", 6)
    feed = feed_of(tmp_path / "s", assign='{"orders": ["9"]}')
    assert feed.look() == {}
    with pytest.raises(OptionError, match="no queue orders s:9"):
        feed.check()
    feed = feed_of(tmp_path / "s", assign='{"orders": ["1"]}')
    assert list(feed.look()) == [BrokerQueue("s", "orders", 1)]
    feed.check()
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    bare = feed_of(tmp_path / "s")
    assert bare.look() == {}
    with pytest.raises(OptionError, match="ConsumeQueues"):
        bare.check()


def test_offsets_by_time_are_those_of_the_first_message_stored_then(tmp_path: Path) -> None:
    """For every second, between two, before the first and behind the last."""
    root = tmp_path / "s"
    written(root, 40)
    rows = list(read_log(root))
    feed = feed_of(root)
    bounds = feed.look()
    for moment in range(999_500, 1_042_000, 500):
        found = feed.offsets_at(bounds, moment)
        for key, there in bounds.items():
            later = [
                row["queue_offset"]
                for row in rows
                if row["queue_id"] == key.queue_id and row["store_timestamp"] >= moment
            ]
            assert found[key] == min(later, default=there.end)


def test_sizes_are_those_of_the_records(tmp_path: Path) -> None:
    """As the ConsumeQueues tell them; none of a queue that went away."""
    root = tmp_path / "s"
    written(root, 9)
    feed = feed_of(root)
    feed.look()
    key = BrokerQueue("s", "orders", 1)
    size = next(row["record_bytes"] for row in read_log(root))
    assert feed.sizes(key, 1, 2).tolist() == [size, size]
    assert feed.sizes(key._replace(broker="gone"), 0, 5).tolist() == []
    assert feed.sizes(key._replace(queue_id=7), 0, 5).tolist() == []
    feed.close()
    assert feed.brokers() == []


def test_tasks_get_the_files_that_their_ranges_lie_in(tmp_path: Path) -> None:
    """Not the names of all files of a long log, trigger after trigger."""
    root = tmp_path / "s"
    written(root, 3000, segment_bytes=4096)
    assert len(os.listdir(root / "commitlog")) > 100  # noqa: PTH208
    feed = feed_of(root)
    bounds = feed.look()
    ranges = [QueueRange(key, there.end - 5, there.end) for key, there in bounds.items()]
    options = parse_options({"path": str(root)}, Use.STREAM)
    partitions = feed.partitions(Asked(options, ["body"], EVERYTHING, marks={}), ranges)
    pieces = [each.store_piece.piece for each in partitions]
    assert sum(len(piece.segments) for piece in pieces if isinstance(piece, EntryPiece)) in (1, 2)
