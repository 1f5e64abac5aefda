"""A log with spans that cannot be read: nothing sound is lost, and what is lost is said."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import (
    append,
    bodies,
    lost,
    opened,
    other_problems,
    read_all,
    send,
    settle,
    small,
)

from aerobee.remoting.message.record import BLANK
from aerobee.storage.disk.files import Files
from aerobee.storage.dump import dump
from aerobee.storage.log.scan import HEAD
from aerobee.storage.reads.results import ReadStatus
from aerobee.storage.recovery.quarantine import forget_damage_before
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

SEGMENT = 64 * 1024


def settings_of(root: Path, **more: Any) -> StoreSettings:
    """Files of 64 KiB."""
    return small(root, **({"segment_bytes": SEGMENT, "queue_file_entries": 1000} | more))


def written(root: Path, count: int = 500, **more: Any) -> list[int]:
    """A cleanly stopped store: one message of topic other, `count` of 1,000 bytes in t."""
    store = opened(settings_of(root, **more))
    send(store, "other", body=b"alone")
    places = []
    for number in range(count):
        places.append(send(store, "t", body=b"%04d" % number + bytes(996)))
        store.poll()
    store.close()
    return places


class ReadOnlyFiles(Files):
    """A disk that nothing can be written to."""

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open for reading only."""
        if create or write:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return super().open(path, write=False)


def log_file(root: Path, number: int) -> Path:
    """The file of the log with that number, from 0."""
    return root / "commitlog" / f"{number * SEGMENT:020d}"


def edit(path: Path, at: int, data: bytes) -> None:
    """Overwrite a few bytes."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def forget(root: Path, *names: str) -> None:
    """Remove our notes."""
    for name in names or ("progress", "written"):
        (root / f"aerobee.{name}").unlink(missing_ok=True)


def kept(store: MessageStore) -> list[int]:
    """The numbers of the messages of topic t that can be read, each at its offset."""
    records = read_all(store, "t")
    assert all(int(record.body[:4]) == record.queue_offset for record in records)
    return [record.queue_offset for record in records]


@pytest.mark.parametrize("left", ["all notes", "no progress", "no notes", "no abort"])
@pytest.mark.parametrize("queue_lost", [True, False])
def test_a_flipped_byte_costs_one_message(tmp_path: Path, left: str, queue_lost: bool) -> None:
    """In the 2nd of nine files, with another queue lost or not, after any kind of stop.

    All files stay, 499 of 500 messages are read, offsets have no gap.
    """
    places = written(tmp_path)
    hit = next(i for i, place in enumerate(places) if place > SEGMENT + 30_000) - 1
    edit(log_file(tmp_path, 1), 30_000, b"\xff")
    if queue_lost:
        shutil.rmtree(tmp_path / "consumequeue" / "other")
    if left != "all notes":
        forget(tmp_path, *(("progress",) if left == "no progress" else ()))
    if left in ("no progress", "no notes"):
        (tmp_path / "abort").write_text("4711")
        (tmp_path / "checkpoint").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "commitlog").iterdir()}
    store = opened(settings_of(tmp_path))
    for name, data in before.items():
        if data.count(0) != len(data):
            now = (tmp_path / "commitlog" / name).read_bytes()
            assert now == data, name
    assert store.queue("t", 0).max_offset == 500
    if left == "no notes":
        assert kept(store) == [number for number in range(500) if number != hit]
        (span,) = store.damage
        assert (span.begin, span.end) == (places[hit], places[hit + 1])
        assert span.queues == (("t", 0, hit, hit),)
        assert span.set_aside is not None
        assert Path(span.set_aside).read_bytes() == before[log_file(tmp_path, 1).name][
            places[hit] - SEGMENT : places[hit + 1] - SEGMENT
        ].rstrip(b"\0")
    if left in ("all notes", "no notes"):
        assert bodies(store, "other") == [b"alone"]
    assert send(store, "t", body=b"0500") > places[-1]
    assert store.queue("t", 0).max_offset == 501
    store.close()


def test_a_lost_queue_is_rebuilt_without_reading_the_log(tmp_path: Path) -> None:
    """Only what no entry covers is read; the end of the log stays where the notes say it is."""
    places = written(tmp_path)
    edit(log_file(tmp_path, 1), 30_000, b"\xff")
    shutil.rmtree(tmp_path / "consumequeue" / "other")
    store = opened(settings_of(tmp_path))
    assert store.recovered.proof == "flushed"
    assert store.recovered.records == 1
    assert bodies(store, "other") == [b"alone"]
    assert store.commit_log.position == places[-1] + places[1] - places[0]
    store.close()


def test_readers_are_moved_past_a_span(tmp_path: Path) -> None:
    """RocketMQ's status where all is gone, the rest where it is not; then what lies behind."""
    places = written(tmp_path, 100)
    forget(tmp_path)
    for number in (20, 21, 22):
        edit(log_file(tmp_path, 0), places[number] + 200, b"\xff")
    (tmp_path / "abort").write_text("4711")
    store = opened(settings_of(tmp_path))
    queue = store.queue("t", 0)
    found = store.read(queue, 20, 2, 1 << 20)
    assert (found.status, found.next_offset) == (ReadStatus.MESSAGE_WAS_REMOVING, 22)
    found = store.read(queue, 18, 8, 1 << 20)
    assert (found.status, found.next_offset, found.count) == (ReadStatus.FOUND, 26, 5)
    assert store.record_at(places[21]) is None
    assert lost(store, "t") == {20, 21, 22}
    store.close()


@pytest.mark.parametrize("byte", range(20, 28))
@pytest.mark.parametrize("queues", [True, False])
def test_a_flipped_queue_offset_is_damage(tmp_path: Path, byte: int, queues: bool) -> None:
    """No queue grows by what the log has no room for, and none is cut; the others stay."""
    settings = settings_of(tmp_path)
    store = opened(settings)
    places = [send(store, "t", body=b"%04d" % number) for number in range(10)]
    store.abandon()
    forget(tmp_path)
    edit(log_file(tmp_path, 0), places[5] + byte, b"\x0f" if byte < 27 else b"\x02")
    if not queues:
        shutil.rmtree(tmp_path / "consumequeue")
    store = opened(settings)
    assert store.queue("t", 0).max_offset == 10
    assert kept(store) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    (span,) = store.damage
    assert (span.begin, span.end) == (places[5], places[6])
    assert span.reason.startswith("queue offset")
    assert lost(store, "t") == {5}
    store.close()
    store = opened(settings)
    assert store.queue("t", 0).max_offset == 10 and store.damage == (span,)
    store.close()
    assert not other_problems(settings)


def test_a_lost_file_is_a_span(tmp_path: Path) -> None:
    """The log goes on in the next file; a file that is put back is no damage any more."""
    places = written(tmp_path)
    saved = log_file(tmp_path, 3).read_bytes()
    log_file(tmp_path, 3).unlink()
    store = opened(settings_of(tmp_path))
    gone = {i for i, place in enumerate(places) if place // SEGMENT == 3}
    assert lost(store, "t") == gone
    assert kept(store) == sorted(set(range(500)) - gone)
    (span,) = store.damage
    assert (span.begin, span.end) == (3 * SEGMENT, 4 * SEGMENT)
    store.close()
    report = verify(settings_of(tmp_path))
    assert report.problem_count == 1 and "is missing" in report.problems[0], report.problems
    assert BLANK.unpack_from(log_file(tmp_path, 3).read_bytes())[0] == SEGMENT
    log_file(tmp_path, 3).write_bytes(saved)
    store = opened(settings_of(tmp_path))
    assert store.damage == () and kept(store) == list(range(500))
    store.close()
    assert not verify(settings_of(tmp_path)).problems


@pytest.mark.parametrize("bad", [0, 1, 20, 40])
def test_a_file_that_is_put_back_with_a_bad_record_has_lost_that_one(
    tmp_path: Path, bad: int
) -> None:
    """Be it the first of the file: the rest of it is served."""
    places = written(tmp_path)
    saved = log_file(tmp_path, 3).read_bytes()
    log_file(tmp_path, 3).unlink()
    opened(settings_of(tmp_path)).close()
    inside = [i for i, place in enumerate(places) if place // SEGMENT == 3]
    log_file(tmp_path, 3).write_bytes(saved)
    edit(log_file(tmp_path, 3), places[inside[bad]] % SEGMENT + 300, b"\xff")
    for _ in range(2):
        store = opened(settings_of(tmp_path))
        assert lost(store, "t") == {inside[bad]}
        assert kept(store) == [i for i in range(500) if i != inside[bad]]
        (span,) = store.damage
        assert (span.begin, span.end) == (places[inside[bad]], places[inside[bad] + 1])
        store.close()
    assert not other_problems(settings_of(tmp_path))


def test_a_short_file_keeps_what_it_has(tmp_path: Path) -> None:
    """It gets its size back, and only what is missing from it is a span."""
    places = written(tmp_path)
    os.truncate(log_file(tmp_path, 2), 20_000)
    store = opened(settings_of(tmp_path))
    (span,) = store.damage
    gone = {i for i, place in enumerate(places) if span.begin <= place < span.end}
    assert span.end == 3 * SEGMENT and 0 <= 2 * SEGMENT + 20_000 - span.begin < 1100
    assert lost(store, "t") == gone and kept(store) == sorted(set(range(500)) - gone)
    store.close()
    assert log_file(tmp_path, 2).stat().st_size == SEGMENT
    assert not other_problems(settings_of(tmp_path))


def test_the_log_does_not_end_before_what_a_note_proves(tmp_path: Path) -> None:
    """The last records are damaged, or their file is lost: offsets are not given again."""
    places = written(tmp_path, 100)
    (tmp_path / "aerobee.written").unlink()
    last = log_file(tmp_path, places[-1] // SEGMENT)
    edit(last, places[-1] % SEGMENT + 300, b"\xff")
    (tmp_path / "abort").write_text("4711")
    last.unlink()
    store = opened(settings_of(tmp_path))
    assert store.commit_log.position > places[-1]
    assert store.queue("t", 0).max_offset == 100
    send(store, "t", body=b"0100")
    assert kept(store)[-1] == 100
    store.close()
    store = opened(settings_of(tmp_path))
    assert kept(store)[-1] == 100 and len(store.damage) == 1
    store.close()


def test_a_message_within_a_damaged_message_stays_there(tmp_path: Path) -> None:
    """A body with the picture of a record at its right position is no message."""
    settings = settings_of(tmp_path)
    store = opened(settings)
    first = send(store, "t", body=b"0000")
    at = store.commit_log.position
    size = 91 + 1 + 40
    picture = HEAD.pack(size, 0xDAA320A7, 0, 0, 0, 7, at + 88, 0)
    picture += bytes(84 - len(picture)) + b"\0\0\0\0" + b"\1t" + b"\0\x28" + bytes(40)
    send(store, "t", body=picture + bytes(200))
    send(store, "t", body=b"0002")
    store.abandon()
    assert first == 0
    forget(tmp_path)
    shutil.copytree(tmp_path, tmp_path.with_name("whole"))
    edit(log_file(tmp_path, 0), at + 4, b"\0")
    store = opened(settings)
    assert lost(store, "t") == {1} and kept(store) == [0, 2]
    store.close()
    whole = settings_of(tmp_path.with_name("whole"))
    shutil.rmtree(whole.root / "consumequeue")
    store = opened(whole)
    assert [record.queue_offset for record in read_all(store, "t")] == [0, 1, 2]
    assert store.damage == ()
    store.close()


def test_files_behind_the_end_are_set_aside(tmp_path: Path) -> None:
    """Bytes that no record explains are kept under another name, torn ones as well."""
    written(tmp_path, 100)
    forget(tmp_path)
    (tmp_path / "abort").write_text("4711")
    number = 9
    for each in range(2, number):
        path = log_file(tmp_path, each)
        if not path.exists():
            path.write_bytes(bytes(SEGMENT))
    log_file(tmp_path, number).write_bytes(b"what is this" * 100 + bytes(SEGMENT - 1200))
    store = opened(settings_of(tmp_path))
    end = store.commit_log.position
    aside = tmp_path / "damaged" / "commitlog"
    (moved,) = aside.glob("*.behind-the-end*")
    assert moved.read_bytes().startswith(b"what is this")
    store.abandon()
    (tmp_path / "aerobee.written").unlink()
    edit(log_file(tmp_path, end // SEGMENT), end % SEGMENT + 10, b"half a record")
    for _ in range(2):
        store = opened(settings_of(tmp_path))
        (torn,) = aside.glob("*.torn")
        assert torn.read_bytes() == bytes(10) + b"half a record"
        assert kept(store) == list(range(100))
        store.abandon()


def test_damage_goes_with_its_file(tmp_path: Path) -> None:
    """Retention drops a span with the file that it lies in, from the note, too."""
    places = written(tmp_path)
    forget(tmp_path)
    (tmp_path / "abort").write_text("4711")
    edit(log_file(tmp_path, 0), places[3] + 300, b"\xff")
    edit(log_file(tmp_path, 2), 300, b"\xff")
    store = opened(settings_of(tmp_path))
    assert len(store.damage) == 2
    settle(store)
    store.segments.drop_first()
    forget_damage_before(store._parts, store.segments.begin)
    assert [span.begin // SEGMENT for span in store.damage] == [2]
    store.close()
    (line, *_) = dump(tmp_path / "aerobee.damage")
    assert line.startswith(f"{2 * SEGMENT} to ") and "kept in" in line
    store = opened(settings_of(tmp_path))
    assert [span.begin // SEGMENT for span in store.damage] == [2]
    store.close()


def test_a_store_that_is_only_read_has_the_same_damage(tmp_path: Path) -> None:
    """Nothing is written, and what lies behind a lost file is read."""
    places = written(tmp_path)
    log_file(tmp_path, 3).unlink()
    edit(log_file(tmp_path, 1), 30_000, b"\xff")
    forget(tmp_path)
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "abort").write_text("4711")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    store = MessageStore(settings_of(tmp_path), ReadOnlyFiles())
    store.open()
    assert store.read_only and len(store.damage) == 2
    gone = {i for i, place in enumerate(places) if place // SEGMENT == 3}
    hit = next(i for i, place in enumerate(places) if place > SEGMENT + 30_000) - 1
    assert kept(store) == sorted(set(range(500)) - gone - {hit})
    store.close()
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert before == after


def test_a_commit_that_was_cut_short_is_no_damage(tmp_path: Path) -> None:
    """A kill leaves the later half of a copy, too; nobody was answered, so the log ends before."""
    store = opened(settings_of(tmp_path))
    send(store, "t", body=b"0000")
    note = (tmp_path / "aerobee.written").read_bytes()
    first = append(store, "t", body=b"0001")
    append(store, "t", body=b"0002")
    store.commit_log.commit()
    store.abandon()
    (tmp_path / "aerobee.written").write_bytes(note)
    edit(log_file(tmp_path, 0), first, bytes(60))
    store = opened(settings_of(tmp_path))
    assert store.recovered.proof == "flushed"
    assert store.damage == () and kept(store) == [0]
    assert store.commit_log.position == first
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_appending_goes_on_over_spans(tmp_path: Path) -> None:
    """Batches, rolls and clean stops behind a damaged span; the next start does not search."""
    places = written(tmp_path, 100)
    forget(tmp_path)
    (tmp_path / "abort").write_text("4711")
    edit(log_file(tmp_path, 0), places[40] + 4, bytes(500))
    store = opened(settings_of(tmp_path))
    for number in range(100, 300):
        append(store, "t", body=b"%04d" % number + bytes(996))
        store.commit_log.commit()
        store.poll()
    settle(store)
    store.abandon()
    store = opened(settings_of(tmp_path))
    assert store.recovered.records == 0 and len(store.damage) == 1
    assert kept(store) == [number for number in range(300) if number != 40]
    store.close()
    assert not other_problems(settings_of(tmp_path))
