"""Recovery where the disk takes nothing, and what a lost stretch must not hide or blow up."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies, opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import AppendRefused
from aerobee.storage.proofs.progress import Progress, write_progress
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

SEGMENT = 16 * 1024


def settings_of(root: Path) -> StoreSettings:
    """Many small files."""
    return small(root, segment_bytes=SEGMENT)


def written(root: Path) -> list[int]:
    """A store that was killed, without our notes: 100 messages, one each second."""
    store = opened(settings_of(root))
    places = []
    for number in range(100):
        body = b"%03d" % number + bytes(200)
        places.append(send(store, "t", body=body, now_ms=NOW_MS + 1000 * number))
        send(store, "other", body=b"%d" % number)
        store.poll()
    store.close()
    (root / "abort").write_text("4711")
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (root / name).unlink()
    return places


class RefusingFiles(Files):
    """A disk that makes no new file and gives no space."""

    def __init__(self, number: int) -> None:
        self.number = number

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Refuse new files."""
        path = Path(path)
        if create and not path.exists():
            raise OSError(self.number, os.strerror(self.number), str(path))
        return super().open(path, create=create, write=write)

    def prepare(self, fd: int, offset: int, count: int) -> None:
        """Refuse space."""
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("lost", ["a queue", "its first file"])
def test_a_full_disk_keeps_no_store_from_being_read(tmp_path: Path, number: int, lost: str) -> None:
    """Entries that queues lack cannot be written: all else is served, and later starts mend it.

    Where all that is missing is room, they are in memory, and served.
    """
    written(tmp_path)
    queue = tmp_path / "consumequeue" / "other" / "0"
    if lost == "a queue":
        shutil.rmtree(queue)
    else:
        (queue / f"{0:020d}").unlink()
    store = opened(settings_of(tmp_path), RefusingFiles(number))
    in_memory = (lost, number) == ("a queue", errno.ENOSPC)
    assert store.read_only != in_memory
    assert len(bodies(store, "t")) == 100
    assert len(bodies(store, "other")) == (100 if lost == "a queue" else 50)
    with pytest.raises(AppendRefused):
        send(store, "t")
    store.close()
    store = opened(settings_of(tmp_path))
    assert len(bodies(store, "t")) == 100
    assert bodies(store, "other") == [b"%d" % number for number in range(100)]
    store.close()


def test_messages_before_a_span_are_found_by_time(tmp_path: Path) -> None:
    """The search steps past what is lost, instead of taking it for older than what it looks for."""
    places = written(tmp_path)
    for place in places[40:61]:
        with (tmp_path / "commitlog" / f"{place // SEGMENT * SEGMENT:020d}").open("r+b") as file:
            file.seek(place % SEGMENT + 4)
            file.write(bytes(4))
    store = opened(settings_of(tmp_path))
    queue = store.queue("t", 0)
    assert store.damage
    for number in (*range(40), *range(61, 100)):
        at = NOW_MS + 1000 * number
        assert store.offset_by_time(queue, at, "LOWER") == number
        assert store.offset_by_time(queue, at, "UPPER") == number
    assert store.offset_by_time(queue, NOW_MS + 50_000, "LOWER") == 61
    assert store.offset_by_time(queue, NOW_MS + 50_000, "UPPER") == 39
    assert store.offset_by_time(queue, NOW_MS + 500_000, "LOWER") == 100
    store.close()


def test_a_progress_file_of_another_store_makes_no_files(tmp_path: Path) -> None:
    """It names a position thousands of files away: the log stays as long as it is."""
    written(tmp_path)
    (tmp_path / "abort").unlink()
    files = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    write_progress(Files(), tmp_path, Progress(SEGMENT * 5000, NOW_MS, {("t", 0): 100}), sync=True)
    store = opened(settings_of(tmp_path))
    assert sorted(path.name for path in (tmp_path / "commitlog").iterdir()) == files
    assert store.damage == () and len(bodies(store, "t")) == 100
    store.close()


def test_a_queue_number_that_none_can_have_is_damage(tmp_path: Path) -> None:
    """A flipped bit makes it negative: that message is a span, and repair leaves nothing to say."""
    places = written(tmp_path)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(places[5] + 12)
        file.write(b"\xff")
    store = opened(settings_of(tmp_path))
    (span,) = store.damage
    assert (span.begin, span.queues) == (places[5], (("t", 0, 5, 5),))
    assert len(bodies(store, "t")) == 99
    store.abandon()
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
