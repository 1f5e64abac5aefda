"""Queue entries that lead to no record: passed over by every way to read, told once, bounded."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from support.disks.logs import opened, send, settle, small

from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.message.record import iter_records
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.residency import everything_is
from aerobee.storage.log.heads import LONG_BYTES
from aerobee.storage.reads.cold.fetching import fetch
from aerobee.storage.reads.cold.request import ColdRead
from aerobee.storage.reads.misreads import Misreads
from aerobee.storage.reads.reading import Gather
from aerobee.storage.reads.results import ReadResult, ReadStatus
from aerobee.storage.store import MessageStore

COUNT: Final = 60
BODY: Final = bytes(range(256)) * 2
TAGS: Final = frozenset({java_string_hash("A")})
WAYS: Final = [None, "compiled"] if is_compiled() else [None]

Harm = Callable[[bytearray, int], None]


def gather_of(way: str | None) -> Gather | None:
    """Return a way to copy records."""
    if way is None:
        return None
    from aerobee.broker.compiled.record_runs import gather

    return gather


def filled(root: Path) -> list[int]:
    """Write a store of one queue in a single log file and return where its messages are."""
    store = opened(small(root, segment_bytes=64 * 1024))
    places = [send(store, body=BODY, tags="A") for _ in range(COUNT)]
    settle(store)
    store.close()
    return places


def harm_log(root: Path, position: int, harm: Harm) -> None:
    """Change the log at rest, behind the back of every proof."""
    (file,) = (root / "commitlog").iterdir()
    data = bytearray(file.read_bytes())
    harm(data, position)
    file.write_bytes(data)


def flip(at: int) -> Harm:
    """Flip a bit so far behind the beginning of a record."""

    def harm(data: bytearray, position: int) -> None:
        data[position + at] ^= 1

    return harm


def wipe(data: bytearray, position: int) -> None:
    """Lose a sector, which has the heads of two records: it reads as zeros."""
    data[position : position + 700] = bytes(700)


def reopened(root: Path, *, cold: bool) -> MessageStore:
    """Open the store again, with everything in memory or nothing of it."""
    store = opened(small(root, segment_bytes=64 * 1024))
    if cold:
        store.reader.use(lambda memory, at, count: 0)
        store.commit_log.flushed_position = store.commit_log.committed
        for queue in store.queues:
            queue.flushed_offset = queue.max_offset
    else:
        store.reader.use(everything_is)
    return store


def served(store: MessageStore, way: str | None, wanted: frozenset[int] | None = None) -> list[int]:
    """Read the queue as a consumer does, and return the offsets of what it is given."""
    queue, gather = store.find_queue("orders", 0), gather_of(way)
    assert queue is not None
    found: list[int] = []
    offset = 0
    while offset < queue.max_offset:
        try:
            result = store.read(queue, offset, 32, 1 << 20, wanted, gather=gather)
        except ColdRead as cold:
            fetched = fetch(store.files, cold.request)
            result = store.read(queue, offset, 32, 1 << 20, wanted, gather=gather, fetched=fetched)
        allowed = (ReadStatus.FOUND, ReadStatus.MESSAGE_WAS_REMOVING)
        assert result.status in (*allowed, ReadStatus.NO_MATCHED_MESSAGE)
        assert result.next_offset > offset
        assert (result.count > 0) is (result.status is ReadStatus.FOUND)
        for record in iter_records(b"".join(result.parts)):
            assert record.body == BODY
            found.append(record.queue_offset)
        offset = result.next_offset
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wanted", [None, TAGS])
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize(
    ("harm", "last"),
    [(flip(1), 20), (flip(4), 20), (flip(30), 20), (wipe, 21)],
    ids=["size", "magic", "position", "sector"],
)
def test_what_is_no_record_is_given_to_nobody(
    tmp_path: Path,
    way: str | None,
    wanted: frozenset[int] | None,
    cold: bool,
    harm: Harm,
    last: int,
) -> None:
    """Bytes that went bad behind every proof cost their messages, not the others, nor an end."""
    harm_log(tmp_path, filled(tmp_path)[20], harm)
    store = reopened(tmp_path, cold=cold)
    assert served(store, way, wanted) == [at for at in range(COUNT) if not 20 <= at <= last]
    assert store.reader.misreads.known(store.find_queue) == [("orders", 0, 20, last)]
    store.close()


@pytest.mark.parametrize("way", WAYS)
def test_it_is_told_once(tmp_path: Path, way: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """One line for a run of messages, with what to do, however often and by whom it is read."""
    places = filled(tmp_path)
    harm_log(tmp_path, places[20], wipe)
    harm_log(tmp_path, places[40], flip(4))
    store = reopened(tmp_path, cold=False)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            served(store, way)
            served(store, way, TAGS)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith("messages_damaged queue=orders-0 from=20 to=21 ")
    assert "aerobee.storage.repair" in told[0]
    assert told[1].startswith("messages_damaged queue=orders-0 from=40 to=40 ")
    assert store.delete_topic("orders")
    assert store.reader.misreads.known(store.find_queue) == []
    store.close()


def test_notes_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log of which every other record is bad fills neither the memory nor the broker's log."""
    store = opened(small(tmp_path, queue_file_entries=1000))
    queue = store.queue("orders", 0)
    for _ in range(900):
        send(store, body=b"")
        store.poll()
    misreads = Misreads(runs_max=50, told_max=10)
    with caplog.at_level(logging.ERROR):
        for offset in range(0, 900, 2):
            misreads.note(queue, [(offset, offset * 91)])
    known = misreads.known(store.find_queue)
    assert known == [("orders", 0, offset, offset) for offset in range(0, 100, 2)]
    assert len(caplog.records) == 11 and "more" in caplog.records[-1].getMessage()
    for offset in range(1, 100, 2):  # neighbours become one
        misreads.note(queue, [(offset, offset * 91)])
    assert misreads.known(store.find_queue)[0] == ("orders", 0, 0, 99)
    queue.min_offset = 90  # retention
    assert misreads.known(store.find_queue)[0] == ("orders", 0, 90, 99)
    store.close()


class CountingFiles(Files):
    """Files that know how much was read from them."""

    def __init__(self) -> None:
        self.bytes = 0

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Count, and read."""
        self.bytes += count
        return super().read(fd, count, at)


def forge(root: Path, offset: int, field: bytes, at: int = 8) -> None:
    """Write another record size, or a place (at 0), into a queue's entry."""
    (file,) = (root / "consumequeue" / "orders" / "0").glob(f"{0:020d}")
    with file.open("r+b") as queue:
        queue.seek(offset * 20 + at)
        queue.write(field)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("size", [3, 90, 200, LONG_BYTES, LONG_BYTES + 1, 6 << 20])
def test_a_forged_size_reads_and_hands_out_nothing(
    tmp_path: Path, way: str | None, cold: bool, size: int
) -> None:
    """What an entry says costs a bounded read, and its message alone."""
    settings = small(tmp_path, segment_bytes=8 << 20)
    store = opened(settings)
    for _ in range(20):
        send(store, body=BODY, tags="A")
    long = send(store, body=bytes(3 << 20))
    send(store, body=bytes(3 << 20))
    settle(store)
    store.close()
    assert long < 1 << 20
    forge(tmp_path, 5, size.to_bytes(4, "big"))
    files = CountingFiles()
    store = opened(settings, files)
    store.reader.use((lambda memory, at, count: 0) if cold else everything_is)
    store.commit_log.flushed_position = store.commit_log.committed
    queue = store.find_queue("orders", 0)
    assert queue is not None
    queue.flushed_offset = queue.max_offset
    files.bytes = 0
    gather, offset, found = gather_of(way), 5, []

    def taken(count: int, bytes_max: int) -> ReadResult:
        try:
            return store.read(queue, offset, count, bytes_max, gather=gather)
        except ColdRead as read:
            fetched = fetch(files, read.request)
            return store.read(queue, offset, count, bytes_max, gather=gather, fetched=fetched)

    while offset < 13:
        result = taken(8, 1 << 20)
        found += [record.queue_offset for record in iter_records(b"".join(result.parts))]
        offset = result.next_offset
    assert found == list(range(6, offset))
    assert files.bytes < LONG_BYTES + (64 << 10)
    assert store.reader.misreads.known(store.find_queue) == [("orders", 0, 5, 5)]
    offset = 20  # a long one that is true is served
    result = taken(1, 100)
    assert (result.status, result.count) == (ReadStatus.FOUND, 1)
    assert result.bytes > 3 << 20
    store.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", [-5, -(1 << 60), 1 << 60])
def test_an_entry_that_leads_out_of_the_log_is_told(
    tmp_path: Path, way: str | None, place: int
) -> None:
    """Also at the beginning of a read, where messages would be that have gone by age."""
    filled(tmp_path)
    for offset in (0, 1, 32):
        forge(tmp_path, offset, place.to_bytes(8, "big", signed=True), at=0)
    store = reopened(tmp_path, cold=False)
    assert served(store, way) == [at for at in range(COUNT) if at not in (0, 1, 32)]
    known = store.reader.misreads.known(store.find_queue)
    assert known == [("orders", 0, 0, 1), ("orders", 0, 32, 32)]
    store.close()
