"""Reads: every status with its next offset, every limit, filters, and the pieces they come in."""

from pathlib import Path

import pytest
from support.disks.logs import append, opened, send, small

from aerobee.remoting.message.record import decode_record, iter_records
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.reads.results import ReadResult, ReadStatus
from aerobee.storage.store import MessageStore

BIG = 1 << 20
A, B = java_string_hash("A"), java_string_hash("B")


def offsets(result: ReadResult) -> list[int]:
    """The queue offsets of what was found."""
    data = b"".join(result.parts)
    assert len(data) == result.bytes
    found = [record.queue_offset for record in iter_records(data)]
    assert len(found) == result.count
    return found


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """A store of 40 messages in queue 0, alternating with queue 1; every fifth has tag B."""
    store = opened(small(tmp_path, queue_file_entries=100))
    for number in range(40):
        append(store, queue_id=0, body=bytes(100), tags="B" if number % 5 == 0 else "A")
        append(store, queue_id=1, body=bytes(100))
    store.commit_log.commit()
    return store


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (0, ReadStatus.FOUND, 32),
        (39, ReadStatus.FOUND, 40),
        (40, ReadStatus.OFFSET_OVERFLOW_ONE, 40),
        (41, ReadStatus.OFFSET_OVERFLOW_BADLY, 40),
        (10**15, ReadStatus.OFFSET_OVERFLOW_BADLY, 40),
    ],
)
def test_the_offset_decides_the_status(
    store: MessageStore, offset: int, status: ReadStatus, next_offset: int
) -> None:
    """DefaultMessageStore.getMessage's table, and where the reader should go on."""
    result = store.read(store.find_queue("orders", 0), offset, 100, BIG)
    assert (result.status, result.next_offset) == (status, next_offset)
    assert (result.min_offset, result.max_offset) == (0, 40)


def test_missing_and_empty_queues(store: MessageStore) -> None:
    """No such queue, and a queue without messages, are told apart."""
    missing = store.read(store.find_queue("nothing", 0), 3, 32, BIG)
    assert (missing.status, missing.next_offset) == (ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    empty = store.read(store.queue("empty", 0), 3, 32, BIG)
    assert (empty.status, empty.next_offset) == (ReadStatus.NO_MESSAGE_IN_QUEUE, 0)


@pytest.mark.parametrize("wanted", [None, frozenset({A, B})])
def test_count_and_bytes_are_limited(store: MessageStore, wanted: frozenset[int] | None) -> None:
    """At most 32 messages, at most what was asked, at least one however large."""
    queue = store.find_queue("orders", 0)
    assert offsets(store.read(queue, 5, 100, BIG, wanted)) == list(range(5, 37))
    assert offsets(store.read(queue, 5, 3, BIG, wanted)) == [5, 6, 7]
    size = queue.entry(5)[1] if queue else 0
    assert offsets(store.read(queue, 5, 32, 2 * size, wanted)) == [5, 6]
    assert offsets(store.read(queue, 5, 32, 2 * size - 1, wanted)) == [5]
    assert offsets(store.read(queue, 5, 0, 0, wanted)) == [5]


def test_neighbours_come_in_one_piece(tmp_path: Path) -> None:
    """Messages side by side in one file are one slice of it."""
    store = opened(small(tmp_path, queue_file_entries=100))
    for _ in range(10):
        append(store)
    append(store, queue_id=1)
    for _ in range(10):
        append(store)
    store.commit_log.commit()
    queue = store.queue("orders", 0)
    assert len(store.read(queue, 0, 10, BIG).parts) == 1
    assert offsets(store.read(queue, 0, 20, BIG)) == list(range(20))
    by_filter = store.read(queue, 0, 20, BIG, frozenset({0}))
    assert len(by_filter.parts) == 2
    assert offsets(by_filter) == list(range(20))


def test_the_queue_says_in_which_order_records_come(tmp_path: Path) -> None:
    """Where entries do not name records in the order of the log, as in a damaged queue file."""
    store = opened(small(tmp_path))
    for _ in range(4):
        append(store)
    store.commit_log.commit()
    queue = store.queue("orders", 0)
    buffer, at, _ = queue.run(0, 4)
    first, second, third, last = (bytes(buffer[at + 20 * i : at + 20 * i + 20]) for i in range(4))
    for entries, numbers in (
        ((second, first, third, last), [1, 0, 2, 3]),
        ((first, first, third, last), [0, 0, 2, 3]),
    ):
        buffer[at : at + 80] = b"".join(entries)
        assert offsets(store.read(queue, 0, 4, BIG)) == numbers
        assert offsets(store.read(queue, 0, 4, BIG, frozenset({0}))) == numbers


def test_reads_cross_log_files_but_not_queue_files(tmp_path: Path) -> None:
    """Log files may change within a read; a queue file's end ends it, as in RocketMQ."""
    store = opened(small(tmp_path, segment_bytes=4096))
    for number in range(60):
        send(store, body=b"%03d" % number + bytes(500))
        store.poll()
    queue = store.queue("orders", 0)
    assert offsets(store.read(queue, 0, 20, BIG)) == list(range(20))
    result = store.read(queue, 40, 32, BIG)
    assert offsets(result) == list(range(40, 50))
    assert result.next_offset == 50


def test_tags_are_matched_by_hash(store: MessageStore) -> None:
    """Only what was wanted comes; the next offset passes what was not."""
    queue = store.find_queue("orders", 0)
    found = store.read(queue, 1, 32, BIG, frozenset({B}))
    assert offsets(found) == [5, 10, 15, 20, 25, 30, 35]
    assert found.next_offset == 40
    limited = store.read(queue, 1, 2, BIG, frozenset({B}))
    assert (offsets(limited), limited.next_offset) == ([5, 10], 15)
    nothing = store.read(queue, 3, 32, BIG, frozenset({123}))
    assert (nothing.status, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 40)
    assert store.read(queue, 3, 32, BIG, frozenset()).count == 0


def test_a_filter_sees_so_many_entries_per_read(tmp_path: Path) -> None:
    """16,000 bytes of entries, 800, at most; beyond the first few numpy looks for the tags."""
    store = opened(small(tmp_path, segment_bytes=1 << 20, queue_file_entries=3000,
                         window_bytes=1 << 20, first_window_bytes=1 << 20))  # fmt: skip
    for number in range(2000):
        append(store, tags="B" if number in (300, 799, 800) else "A", body=b"")
    store.commit_log.commit()
    queue = store.queue("orders", 0)
    for wanted in (frozenset({B}), frozenset({B, 12, 13})):
        result = store.read(queue, 0, 32, BIG, wanted)
        assert (offsets(result), result.next_offset) == ([300, 799], 800)
    assert offsets(store.read(queue, 0, 1500, BIG, frozenset({B}))) == [300, 799, 800]


def test_the_record_may_decide(store: MessageStore) -> None:
    """`accept` sees each record's bytes after the tags have matched."""
    queue = store.find_queue("orders", 0)

    def even(data: memoryview) -> bool:
        return decode_record(data).queue_offset % 2 == 0

    result = store.read(queue, 0, 32, BIG, frozenset({B}), even)
    assert offsets(result) == [0, 10, 20, 30]
    assert offsets(store.read(queue, 30, 32, BIG, None, even)) == [30, 32, 34, 36, 38]


def test_the_record_may_end_the_read(store: MessageStore) -> None:
    """`accept` says None when it has taken long enough: the next read begins with that record."""
    queue = store.find_queue("orders", 0)
    seen: list[int] = []

    def some(data: memoryview) -> bool | None:
        seen.append(decode_record(data).queue_offset)
        return None if len(seen) > 7 else seen[-1] == 3

    result = store.read(queue, 0, 32, BIG, None, some)
    assert (offsets(result), result.next_offset, result.status) == ([3], 7, ReadStatus.FOUND)
    seen.clear()
    result = store.read(queue, 7, 32, BIG, None, some)
    assert (result.next_offset, result.status) == (14, ReadStatus.NO_MATCHED_MESSAGE)


def test_messages_far_behind_come_in_smaller_portions(tmp_path: Path) -> None:
    """What is no longer in memory is read 8 messages, 64 KiB, at a time."""
    store = opened(small(tmp_path, memory_ratio=1e-9))
    for _ in range(40):
        append(store)
    store.commit_log.commit()
    assert store.read(store.queue("orders", 0), 0, 32, BIG).count == 8


def test_messages_that_the_log_let_go(tmp_path: Path) -> None:
    """Entries whose log file is gone are skipped, and the reader is told."""
    store = opened(small(tmp_path, segment_bytes=4096))
    for number in range(30):
        send(store, body=b"%03d" % number + bytes(500))
        store.poll()
    queue = store.queue("orders", 0)
    while store.segments.items[0].base == 0:
        store.segments.drop_first()
    result = store.read(queue, 0, 3, BIG)
    assert (result.status, result.next_offset) == (ReadStatus.MESSAGE_WAS_REMOVING, 3)
    later = store.read(queue, 0, 20, BIG)
    assert offsets(later) == list(range(6, 20))
    assert later.status is ReadStatus.FOUND
