"""A queue's entries: on disk as RocketMQ's, found again, truncated, trimmed, mended."""

import errno
import os
import struct
from pathlib import Path

import pytest
from support.logs import ForgetfulFiles

from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.errors import LogFull, LogUnavailable, StoreDamaged, WrongFileSize
from aerobee.storage.files import Files
from aerobee.storage.queue_files import BLANK_SIZE

ENTRIES = 50


def queue_in(path: Path, files: Files | None = None, *, write: bool = True) -> ConsumeQueue:
    """A queue of small files."""
    return ConsumeQueue(files or Files(), path / "orders" / "2", "orders", 2, ENTRIES, write=write)


def fill(queue: ConsumeQueue, count: int, first_position: int = 0) -> None:
    """Add entries of 100 bytes each."""
    for _ in range(count):
        offset = queue.max_offset
        queue.put(offset, first_position + offset * 100, 100, offset * 7)


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


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 230])
def test_the_end_is_found_again(tmp_path: Path, count: int) -> None:
    """Loading finds the first entry that is none, with or without a hint."""
    queue = queue_in(tmp_path)
    fill(queue, count)
    queue.close()
    for known in (0, count // 2, count):
        again = queue_in(tmp_path)
        again.load(known)
        assert (again.min_offset, again.max_offset) == (0, count)
        assert again.end_position() == count * 100
        assert again.last_position() == count * 100 - 100 if count else -1
        fill(again, 1)
        assert again.entry(count) == (count * 100, 100, count * 7)
        again.truncate(count)
        again.close()


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
    assert queue.tags(60, 10).tolist() == [at * 7 for at in range(60, 70)]


def test_files_to_sync_are_handed_out_once(tmp_path: Path) -> None:
    """Full files are synced and closed by whoever takes them, the current one stays open."""
    queue = queue_in(tmp_path)
    fill(queue, 120)
    stay, go = queue.take_sync_fds()
    assert (len(stay), len(go)) == (1, 2)
    for fd in go:
        os.close(fd)
    assert queue.take_sync_fds() == (stay, [])
    queue.distrust(10)
    assert queue.flushed_offset == 10
    _, go = queue.take_sync_fds()
    assert len(go) == 2, "every file from the distrusted entry on, but the open one"
    for fd in go:
        os.close(fd)


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, LogFull), (errno.EIO, LogUnavailable)])
def test_no_space_for_entries_refuses_the_message(
    tmp_path: Path, number: int, kind: type[Exception]
) -> None:
    """The disk's refusal is known before anything is packed."""
    files = Files()
    queue = queue_in(tmp_path, files)
    fill(queue, 50)

    def refuses(fd: int, at: int, count: int) -> None:
        raise OSError(number, os.strerror(number))

    files.prepare = refuses  # type: ignore[method-assign]
    with pytest.raises(kind):
        queue.put(50, 5000, 100, 0)
    assert queue.max_offset == 50
    del files.prepare
    fill(queue, 5)
    assert queue.max_offset == 55


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


def test_queues_leave_files_for_connections_and_the_log(tmp_path: Path) -> None:
    """A queue that would open one of the last files is refused; those that are open go on."""
    files = Files()
    first = queue_in(tmp_path / "a", files)
    fill(first, 1)
    files.queue_files_end = first.fd + 1
    second = queue_in(tmp_path / "b", files)
    with pytest.raises(LogUnavailable, match="raise the limit of open files"):
        fill(second, 1)
    assert second.max_offset == 0
    fill(first, ENTRIES)  # into its next file
    files.queue_files_end = 1 << 20
    fill(second, 1)
