"""Sectors that cannot be read do not keep a store from being opened: what they had is damage."""

import errno
import logging
import os
from pathlib import Path
from typing import Final

import pytest
from support.disks.bad_sectors import PAGE, BadSectors
from support.disks.logs import bodies, lost, opened, read_all, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.sectors import PAGES_MAX
from aerobee.storage.errors import StoreDamaged
from aerobee.storage.layout import (
    BOOT_NOTE,
    CHECKPOINT,
    CUT,
    DAMAGE,
    DELETED,
    DOUBT,
    MENDING,
    PROGRESS,
)
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

COUNT: Final = 150
BODY: Final = 500


def settings_of(root: Path) -> StoreSettings:
    """Settings of a store whose log has a few files, and whose queue has several pages."""
    return small(root, segment_bytes=32 * 1024, queue_file_entries=1000)


def filled(root: Path, *, clean: bool) -> list[int]:
    """Write a store of one queue, stop or kill it, and return where its messages are."""
    store = opened(settings_of(root))
    places = []
    for number in range(COUNT):
        places.append(send(store, body=(b"%d " % number).ljust(BODY)))
        store.poll()
    settle(store)
    if clean:
        store.close()
    else:
        store.abandon()
    return places


def forget_proofs(root: Path) -> None:
    """Let the next start read the whole log."""
    for name in (PROGRESS, BOOT_NOTE, CHECKPOINT):
        (root / name).unlink(missing_ok=True)
    (root / "abort").write_text("1")


def log_file(root: Path, position: int) -> tuple[Path, int]:
    """Return the file of a position, and the place in it."""
    base = position // (32 * 1024) * (32 * 1024)
    return root / "commitlog" / f"{base:020d}", position - base


def numbers(store: MessageStore) -> list[int]:
    """Return which messages are there."""
    return [int(body) for body in bodies(store)]


def goes_on(store: MessageStore, root: Path, files: BadSectors) -> None:
    """Check that it takes messages, and that a further start, clean or not, finds the same."""
    before = numbers(store)
    send(store, body=b"1000")
    settle(store)
    assert numbers(store) == [*before, 1000]
    store.abandon()
    again = opened(settings_of(root), files)
    assert numbers(again) == [*before, 1000]
    again.close()
    last = opened(settings_of(root), files)
    assert numbers(last) == [*before, 1000]
    last.close()


@pytest.mark.parametrize("which", [0, 10, 61, 62, 100])
def test_a_bad_sector_in_the_log_costs_its_messages(
    tmp_path: Path, which: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Those behind it are served, offsets stay, and one line says which file and where."""
    places = filled(tmp_path, clean=False)
    forget_proofs(tmp_path)
    files = BadSectors()
    path, at = log_file(tmp_path, places[which])
    files.spoil(path, at)
    with caplog.at_level(logging.ERROR):
        store = opened(settings_of(tmp_path), files)
    assert store.commit_log.writable and files.refused
    gone = lost(store)
    page = places[which] // PAGE * PAGE
    hit = {n for n, p in enumerate(places) if p < page + PAGE and p + 600 > page}
    assert which in gone and gone <= hit
    assert numbers(store) == [n for n in range(COUNT) if n not in gone]
    assert {span.reason for span in store.damage} == {"the disk does not give it"}
    told = [record.getMessage() for record in caplog.records]
    assert sum("log_sector_unreadable" in line and str(path) in line for line in told) == 1
    assert any("log_damaged" in line for line in told)
    goes_on(store, tmp_path, files)


def test_an_end_that_cannot_be_read_is_not_written_over(tmp_path: Path) -> None:
    """If it was a whim of the disk, what was there comes back with the next start."""
    places = filled(tmp_path, clean=False)
    forget_proofs(tmp_path)
    files = BadSectors()
    path, at = log_file(tmp_path, places[-1])
    files.spoil(path, at, 600)
    kept = path.read_bytes()
    store = opened(settings_of(tmp_path), files)
    found = numbers(store)
    assert found == list(range(len(found))) and COUNT - 20 < len(found) < COUNT
    assert store.commit_log.position % PAGE == 0 and store.commit_log.position > places[-1]
    send(store, body=b"1000")
    store.abandon()
    end = places[-1] % (32 * 1024) + 550
    assert path.read_bytes()[:end] == kept[:end]
    again = opened(settings_of(tmp_path))
    assert [each.body for each in read_all(again)][-1] == b"1000"
    assert numbers(again)[:COUNT] == list(range(COUNT))
    again.close()


def test_a_bad_sector_in_unused_space_is_nothing(tmp_path: Path) -> None:
    """It is written over."""
    places = filled(tmp_path, clean=False)
    forget_proofs(tmp_path)
    files = BadSectors()
    path, at = log_file(tmp_path, places[-1])
    files.spoil(path, at + 2 * PAGE + 600)
    store = opened(settings_of(tmp_path), files)
    assert not store.damage and numbers(store) == list(range(COUNT))
    goes_on(store, tmp_path, files)


def test_a_disk_that_is_gone_is_no_bad_sector(tmp_path: Path) -> None:
    """Then nothing is decided, or changed, and the error says what to do."""
    store = opened(small(tmp_path, segment_bytes=4 << 20, queue_file_entries=5000))
    for _ in range(2500):
        send(store, body=bytes(1000))
        store.poll()
    settle(store)
    store.abandon()
    forget_proofs(tmp_path)
    files = BadSectors()
    (path,) = (tmp_path / "commitlog").iterdir()
    files.spoil(path, 0, (PAGES_MAX + 10) * PAGE)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="the disk is failing, or away"):
        opened(small(tmp_path, segment_bytes=4 << 20, queue_file_entries=5000), files)
    assert path.read_bytes() == before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("proofs", [True, False])
def test_a_queue_file_that_cannot_be_read_is_written_again(
    tmp_path: Path, clean: bool, page: int, proofs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is set aside, and the log has all that it had; nobody dies of touching its map."""
    filled(tmp_path, clean=clean)
    if not proofs:
        forget_proofs(tmp_path)
    files = BadSectors()
    path = tmp_path / "consumequeue" / "orders" / "0" / f"{0:020d}"
    files.spoil(path, page * PAGE if page == 0 else 2900)
    store = opened(settings_of(tmp_path), files)
    assert numbers_of_reads(store) == list(range(COUNT))
    assert store.commit_log.writable
    if files.refused or any("queue_file_unreadable" in r.getMessage() for r in caplog.records):
        kept = tmp_path / "damaged" / "consumequeue" / "orders" / "0"
        assert list(kept.glob("*.unreadable"))
    store.close()


def numbers_of_reads(store: MessageStore) -> list[int]:
    """Return which messages are there."""
    return [int(record.body) for record in read_all(store)]


@pytest.mark.parametrize("name", [PROGRESS, CHECKPOINT, BOOT_NOTE, DOUBT, MENDING, CUT, DELETED])
def test_a_note_that_cannot_be_read_is_done_without(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The start reads more of the log, says which file it was, and finds everything."""
    filled(tmp_path, clean=False)
    (tmp_path / name).open("ab").close()
    if not (tmp_path / name).stat().st_size:
        (tmp_path / name).write_bytes(b"x" * 40)
    files = BadSectors()
    files.spoil(tmp_path / name, 0)
    with caplog.at_level(logging.ERROR):
        store = opened(settings_of(tmp_path), files)
    assert numbers(store) == list(range(COUNT))
    assert store.commit_log.writable
    (line,) = [r.getMessage() for r in caplog.records if "note_unreadable" in r.getMessage()]
    assert str(tmp_path / name) in line
    assert (tmp_path / f"{name}.unreadable").exists()
    files.bad.clear()
    store.close()
    again = opened(settings_of(tmp_path), files)
    assert numbers(again) == list(range(COUNT))
    again.close()


class Whims(Files):
    """A disk that does not give a small file one of the times that it is asked."""

    def __init__(self, name: str, refused: int) -> None:
        super().__init__()
        self._name = name
        self._refused = refused
        self.asked = 0

    def read_all(self, path: Path, bytes_max: int) -> bytes | None:
        """Read a small file, or not."""
        self.asked += path.name == self._name
        if path.name == self._name and self.asked == self._refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().read_all(path, bytes_max)


@pytest.mark.parametrize(("name", "refused"), [(PROGRESS, 3), (CHECKPOINT, 3), (DAMAGE, 2)])
def test_a_store_with_a_short_path_outlives_a_note_that_is_refused(
    tmp_path: Path, name: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like one at the root of a disk: a moment's refusal leaves it readable, not a broken start."""
    monkeypatch.chdir(tmp_path)
    filled(Path("s"), clean=False)
    files = Whims(name, refused)
    store = opened(settings_of(Path("s")), files)
    assert files.asked > refused
    assert numbers(store) == list(range(COUNT))
    store.close()
