"""A queue's entries: on disk as RocketMQ's, found again, truncated, trimmed, mended."""

import errno
import gc
import os
import struct
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.maps import WITHOUT_NUMBERS
from aerobee.storage.errors import LogFull, LogUnavailable, StoreDamaged, WrongFileSize
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.map_pool import MapPool

ENTRIES = 50


def queue_in(path: Path, files: Files | None = None, *, write: bool = True) -> ConsumeQueue:
    """A queue of small files."""
    access = QueueAccess(files or Files(), ENTRIES, write=write)
    return ConsumeQueue(access, path / "orders" / "2", "orders", 2)


def fill(queue: ConsumeQueue, count: int, first_position: int = 0) -> None:
    """Add entries of 100 bytes each."""
    for _ in range(count):
        offset = queue.max_offset
        queue.put(offset, first_position + offset * 100, 100, offset * 7)
    queue.write_out()


def names(queue: ConsumeQueue) -> list[int]:
    """Where the files begin."""
    return [span.begin for span in queue.spans()]


def test_entries_are_twenty_bytes_in_files_of_fixed_size(tmp_path: Path) -> None:
    """Position i64, size i32, tags i64; a file is full size from its first entry on."""
    queue = queue_in(tmp_path)
    assert not queue.directory.exists(), "no message, no file"
    fill(queue, 120)
    assert names(queue) == [0, 1000, 2000]
    assert {span.size for span in queue.spans()} == {1000}
    second = queue.spans()[1].path.read_bytes()
    assert second[:20] == struct.pack(">qiq", 5000, 100, 350)
    assert [queue.entry(at) for at in (0, 49, 50, 119)] == [
        (0, 100, 0), (4900, 100, 343), (5000, 100, 350), (11900, 100, 833),
    ]  # fmt: skip
    for missing in (-1, 120):
        with pytest.raises(IndexError, match="orders-2"):
            queue.entry(missing)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 230])
def test_the_end_is_found_again(tmp_path: Path, count: int, *, stopped: bool) -> None:
    """Loading finds the first entry that is none, with or without a hint, by one look or more."""
    queue = queue_in(tmp_path)
    fill(queue, count)
    queue.close()
    for known in (0, count // 2, count):
        again = queue_in(tmp_path)
        again.load(known, stopped=stopped)
        assert (again.min_offset, again.max_offset) == (0, count)
        assert again.end_position() == count * 100
        assert again.last_position() == count * 100 - 100 if count else -1
        fill(again, 1)
        assert again.entry(count) == (count * 100, 100, count * 7)
        again.truncate(count)
        again.close()


def test_a_first_file_that_is_not_whole_is_no_short_cut(tmp_path: Path) -> None:
    """What another size means is decided as ever, also of a store that was stopped."""
    queue = queue_in(tmp_path)
    fill(queue, 20)
    queue.close()
    os.truncate(queue.directory / "00000000000000000000", 1020)
    with pytest.raises(WrongFileSize):
        queue_in(tmp_path).load(20, stopped=True)
    os.truncate(queue.directory / "00000000000000000000", 300)
    again = queue_in(tmp_path)
    again.load(20, stopped=True)
    assert again.max_offset == 15, "what it lacks is found missing later"
    (queue.directory / "00000000000000000000").unlink()
    again = queue_in(tmp_path)
    again.load(20, stopped=True)
    assert again.max_offset == 0


def test_truncating_erases(tmp_path: Path) -> None:
    """Entries behind the cut are gone from the disk, and later files with them."""
    queue = queue_in(tmp_path)
    fill(queue, 130)
    queue.truncate(60)
    assert names(queue) == [0, 1000]
    assert not queue.spans()[1].path.read_bytes()[200:].strip(b"\0")
    assert queue.entry(59) == (5900, 100, 413)
    fill(queue, 5, first_position=50)
    queue.close()
    again = queue_in(tmp_path)
    again.load()
    assert again.max_offset == 65
    assert again.entry(60) == (6050, 100, 420)


def test_a_leftover_behind_the_end_is_no_entry(tmp_path: Path) -> None:
    """Positions rise; an entry that falls back is from before a truncation by another broker."""
    queue = queue_in(tmp_path)
    fill(queue, 10)
    queue.close()
    path = queue.spans()[0].path
    data = bytearray(path.read_bytes())
    struct.pack_into(">qiq", data, 200, 300, 100, 0)
    path.write_bytes(data)
    again = queue_in(tmp_path)
    again.load()
    assert again.max_offset == 10


def test_a_queue_whose_head_is_gone_begins_with_blanks(tmp_path: Path) -> None:
    """Rebuilt from the middle, its first file has (0, 2^31-1, 0) up to there."""
    queue = queue_in(tmp_path)
    queue.start_at(70)
    queue.put(70, 7000, 100, 0)
    queue.write_out()
    assert names(queue) == [1000]
    data = queue.spans()[0].path.read_bytes()
    assert data[:400] == struct.pack(">qiq", 0, BLANK_SIZE, 0) * 20
    queue.close()
    again = queue_in(tmp_path)
    again.load()
    again.trim(0)
    assert (again.min_offset, again.max_offset) == (70, 71)


def test_trimming_follows_the_log(tmp_path: Path) -> None:
    """The first offset is that of the first message kept; files wholly before it go."""
    queue = queue_in(tmp_path)
    fill(queue, 160)
    queue.trim(5950)
    assert queue.min_offset == 60
    assert names(queue) == [1000, 2000, 3000]
    queue.trim(100_000)
    assert (queue.min_offset, queue.max_offset) == (160, 160)
    assert names(queue) == [3000], "the last file stays: it keeps the offset"
    assert queue.end_position() == 0


def test_wrong_sizes_are_errors_but_for_a_short_end(tmp_path: Path) -> None:
    """A file of another size names setting and remedy; a last one cut short is completed."""
    queue = queue_in(tmp_path)
    fill(queue, 120)
    queue.close()
    first, _, last = (span.path for span in queue.spans())
    os.truncate(last, 250)
    again = queue_in(tmp_path)
    again.load()
    assert again.max_offset == 112
    assert last.stat().st_size == 1000
    os.truncate(first, 999)
    with pytest.raises(WrongFileSize, match="999 bytes, the settings say 1000"):
        queue_in(tmp_path).load()
    first.unlink()
    last.rename(last.with_name(f"{5000:020d}"))
    with pytest.raises(StoreDamaged, match="is missing"):
        queue_in(tmp_path).load()


def test_a_wrong_entry_is_mended_in_place(tmp_path: Path) -> None:
    """`put` of an older offset writes only if it differs."""
    queue = queue_in(tmp_path)
    fill(queue, 120)
    before = queue.spans()[0].path.read_bytes()
    queue.put(3, 300, 100, 21)
    assert queue.spans()[0].path.read_bytes() == before
    queue.put(3, 301, 99, 5)
    assert queue.entry(3) == (301, 99, 5)
    assert queue.max_offset == 120


def test_old_files_are_mapped_by_need(tmp_path: Path) -> None:
    """Reading through many files keeps only a few mapped."""
    queue = queue_in(tmp_path)
    fill(queue, 1000)
    assert [queue.entry(at)[0] for at in range(1000)] == [at * 100 for at in range(1000)]
    assert len(queue._maps) <= 5


def to_sync(queue: ConsumeQueue) -> list[str]:
    """The numbers of the bytes with which the files begin that are to be synced."""
    return [str(base * 20) for base in queue.begin_sync(queue.max_offset)]


def test_files_are_synced_until_the_disk_has_them(tmp_path: Path) -> None:
    """Full files once, the one that is written each time, and what an earlier process left."""
    queue = queue_in(tmp_path)
    fill(queue, 120)
    assert to_sync(queue) == ["0", "1000", "2000"]
    assert to_sync(queue) == ["2000"]
    queue.distrust(60)
    assert queue.flushed_offset == 60
    assert to_sync(queue) == ["1000", "2000"]
    fill(queue, 10)
    queue.truncate(125)
    assert to_sync(queue) == ["2000"], "also when the file was closed since it was written"


def test_entries_are_written_anew_unless_they_are_lost(tmp_path: Path) -> None:
    """After a failed sync they go to the disk once more; zeros among them are told."""
    queue = queue_in(tmp_path)
    fill(queue, 120)
    before = [queue.entry(offset) for offset in range(120)]
    assert queue.write_anew(30)
    assert [queue.entry(offset) for offset in range(120)] == before
    span = queue.spans()[1]
    with span.path.open("r+b") as file:  # as if the kernel had dropped a page
        file.seek(400)
        file.write(bytes(40))
    assert not queue.write_anew(30)
    assert queue.write_anew(100), "what lies behind is as it was"


def open_files() -> set[int]:
    """The file numbers of this process."""
    gc.collect()  # queues of other tests
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.skipif(not WITHOUT_NUMBERS, reason="maps hold file numbers here")
def test_a_queue_takes_no_open_file(tmp_path: Path) -> None:
    """The map that it is written through holds none; files are open while they grow."""
    before = len(open_files())
    access = QueueAccess(Files(), 10_000)
    queues = [ConsumeQueue(access, tmp_path / str(n), "orders", n) for n in range(20)]
    for queue in queues:
        fill(queue, 2000)
        queue.close()
        assert queue.entry(1999) == (199_900, 100, 13_993)
        fill(queue, 1)
    assert len(open_files()) == before


@pytest.mark.parametrize("taken", [0, 5, 31, 32, 45])
def test_room_for_many_is_made_before_the_tail_is_full(tmp_path: Path, taken: int) -> None:
    """What was there stays, written or not; there is no room beyond the file's end."""
    queue = queue_in(tmp_path)
    fill(queue, taken)
    for count in (1, 10, 3, 50):
        queue.extend(count)
        assert queue.limit > queue.max_offset
        assert queue.limit <= (queue.max_offset // 50 + 1) * 50
        before = queue.max_offset
        while queue.max_offset < queue.limit and queue.max_offset - before < count:
            at = queue.max_offset
            queue.put(at, at * 100, 100, at * 7)
    assert queue.max_offset > taken + 10
    assert [queue.entry(at)[0] for at in range(taken, queue.max_offset)] == [
        at * 100 for at in range(taken, queue.max_offset)
    ]
    queue.write_out()
    again = queue_in(tmp_path)
    again.load(0, stopped=False)
    assert again.max_offset == queue.max_offset
    assert again.entry(again.max_offset - 1) == queue.entry(again.max_offset - 1)


def test_changes_are_noticed_once_until_settled(tmp_path: Path) -> None:
    """The first append after a round puts the queue on the list, and is in memory alone."""
    files, changes = Files(), list[ConsumeQueue]()
    access = QueueAccess(files, ENTRIES, changes=changes)
    queue = ConsumeQueue(access, tmp_path / "0", "orders", 0)
    fill(queue, 3)
    assert changes == [queue]

    def refuses(fd: int, data: bytes | memoryview, at: int) -> None:
        raise AssertionError("this is for memory alone")

    files.write = refuses  # type: ignore[method-assign]
    for _ in range(2):
        changes.clear()
        queue.settle()
        queue.put(queue.max_offset, queue.max_offset * 100, 100, 0)
        assert changes == [queue]
    del files.write
    changes.clear()
    queue.settle()
    queue.truncate(4)
    assert changes == [queue]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, LogFull), (errno.EIO, LogUnavailable)])
def test_no_space_for_entries_refuses_what_memory_has_no_room_for(
    tmp_path: Path, number: int, kind: type[Exception]
) -> None:
    """The disk's refusal is known before anything is packed; what was packed is kept."""
    files = Files()
    queue = queue_in(tmp_path, files)
    fill(queue, 50)

    def refuses(fd: int, data: bytes | memoryview, at: int) -> None:
        raise OSError(number, os.strerror(number))

    files.write = refuses  # type: ignore[method-assign]
    with pytest.raises(kind):
        for offset in range(50, 200):
            if offset >= queue.limit:
                queue.extend()
            queue.put(offset, offset * 100, 100, offset * 7)
    taken = queue.max_offset - 50
    assert 0 < taken <= 50
    with pytest.raises(OSError):
        queue.write_out()
    assert [queue.entry(at)[0] for at in range(50, 50 + taken)] == [
        at * 100 for at in range(50, 50 + taken)
    ]
    del files.write
    fill(queue, 50)
    again = queue_in(tmp_path)
    again.load()
    assert again.max_offset == 100 + taken


def test_a_read_only_queue_is_never_extended(tmp_path: Path) -> None:
    """It reads, trims and truncates in memory alone."""
    queue = queue_in(tmp_path)
    fill(queue, 60)
    queue.close()
    before = {span.path: span.path.read_bytes() for span in queue.spans()}
    reader = queue_in(tmp_path, ForgetfulFiles(), write=False)
    reader.load()
    with pytest.raises(LogUnavailable):
        reader.put(60, 6000, 100, 0)
    reader.truncate(55)
    reader.trim(5100)
    assert (reader.min_offset, reader.max_offset) == (51, 55)
    assert {span.path: span.path.read_bytes() for span in queue.spans()} == before


def test_queues_beyond_the_maps_that_there_are_take_turns(tmp_path: Path) -> None:
    """With room for ten maps thirty queues are written, read and rolled; nothing is refused."""
    files = Files()
    pool = MapPool(lambda: 10)
    access = QueueAccess(files, ENTRIES, pool=pool)
    queues = [ConsumeQueue(access, tmp_path / str(n), "orders", n) for n in range(30)]
    for _ in range(7):
        for queue in queues:
            fill(queue, 20)
            assert pool.count <= 10
    assert [queue.max_offset for queue in queues] == [140] * 30
    for offset in (0, 60, 139):
        for queue in queues:
            assert queue.entry(offset) == (offset * 100, 100, offset * 7)
            assert pool.count <= 10
    for queue in queues:
        assert to_sync(queue)[-1] == "2000", "also of those whose map was let go"
        queue.close()
    assert pool.count == 0


@pytest.mark.parametrize("failing", ["write", "resize"])
def test_a_first_file_that_failed_gets_its_blanks_later(tmp_path: Path, failing: str) -> None:
    """No half-made file stays: the next try would take it for one that has its blanks."""
    files = Files()
    queue = queue_in(tmp_path, files)
    queue.start_at(70)

    def refuses(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    setattr(files, failing, refuses)
    queue.put(70, 7000, 100, 0)
    with pytest.raises(OSError):
        queue.write_out()
    assert names(queue) == []
    delattr(files, failing)
    queue.write_out()
    data = queue.spans()[0].path.read_bytes()
    assert data[:400] == struct.pack(">qiq", 0, BLANK_SIZE, 0) * 20
    queue.close()
    again = queue_in(tmp_path)
    again.load()
    assert again.max_offset == 71
