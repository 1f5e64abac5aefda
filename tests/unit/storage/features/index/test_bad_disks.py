"""A disk without room, or that fails, costs the index time and nothing else."""

import errno
import os
import random
import shutil
from pathlib import Path

import pytest
from support.disks.indexes import BYTES, SHAPE, agrees, catch_up, indexed, store_keyed
from support.disks.logs import opened, small

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.layout import INDEX, INDEX_NOTE


class Failing(Files):
    """Refuses writes, or syncs, from a call on that is counted, for so many calls."""

    def __init__(self, what: str, first: int, count: int = 1) -> None:
        self.what, self.first, self.count, self.calls = what, first, count, 0

    def _call(self, what: str) -> None:
        if what != self.what:
            return
        self.calls += 1
        if self.first <= self.calls < self.first + self.count:
            code = errno.ENOSPC if what == "write" else errno.EIO
            raise OSError(code, os.strerror(code))

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write, or refuse; half of it is written then."""
        try:
            self._call("write")
        except OSError:
            super().write(fd, data[: len(data) // 2], at)
            raise
        super().write(fd, data, at)

    def sync(self, fd: int) -> None:
        """Sync, or refuse."""
        self._call("sync")
        super().sync(fd)


@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.parametrize("first", [1, 2, 3, 4, 6, 9, 14])
def test_what_was_refused_is_done_again_once(tmp_path: Path, what: str, first: int) -> None:
    """Whatever call fails: opened again, every key is there, and none twice."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 150)
    files = Failing(what, first)
    indexer = Indexer(files, tmp_path, SHAPE)
    started, clean = store.commit_log.snapshot(), True
    for _ in range(20):
        try:
            indexer.open(started, clean=clean)
            while indexer.advance(store.commit_log.snapshot(), 2000):
                pass
            indexer.sync()
            break
        except OSError:
            clean = False
    agrees(indexer, store)
    assert sum(each.header.count - 1 for each in indexer.newest_first()) == 600
    indexer.close()
    store.close()


def test_entries_without_room_are_taken_back(tmp_path: Path) -> None:
    """The slots lead where they led before, so that look-ups go on meanwhile."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 20)
    files = Failing("write", 1 << 30)
    indexer = indexed(store, files=files)
    before = indexer.position
    store_keyed(store, 20, 5)
    files.first = files.calls + 1
    with pytest.raises(OSError, match="No space"):
        indexer.advance(store.commit_log.snapshot(), BYTES)
    assert indexer.position == before
    catch_up(indexer, store)
    agrees(indexer, store)
    indexer.close()
    store.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_subset_of_what_was_not_synced(tmp_path: Path, seed: int) -> None:
    """Power is lost: pages of the newest file are as they were at the last sync, or as they are."""
    rng = random.Random(seed)
    store = opened(small(tmp_path))
    first = rng.randrange(70)
    store_keyed(store, 0, first)
    indexer = indexed(store)
    indexer.sync()
    synced = {path: path.read_bytes() for path in tmp_path.glob("index/*")}
    store_keyed(store, first, rng.randrange(1, 60))
    catch_up(indexer, store)
    if indexer._growing is not None and rng.random() < 0.5:
        indexer._growing.flush()  # slots and head are written, and not synced
    indexer.close()
    for path in tmp_path.glob("index/*"):
        now = path.read_bytes()
        old = synced.get(path, bytes(len(now)))
        pages = [rng.choice((old, now))[at : at + 512] for at in range(0, len(now), 512)]
        if b"".join(pages) != now and path not in synced and rng.random() < 0.3:
            path.unlink()  # its name was not synced, either
        else:
            path.write_bytes(b"".join(pages))
    again = indexed(store, clean=False)
    agrees(again, store)
    again.close()
    store.close()


@pytest.mark.parametrize("flushed", [0, 1, 20, 62, 63, 64, 70, 126, 127, 149, 150])
@pytest.mark.parametrize("later", [0, 10, 200])
def test_what_the_log_loses_with_power_is_in_no_note(
    tmp_path: Path, flushed: int, later: int
) -> None:
    """Others stand there when a start sees it that comes after one that was killed."""
    before, root = tmp_path / "before", tmp_path / "store"
    lost, store = opened(small(before)), opened(small(root))
    store_keyed(lost, 0, flushed)
    store_keyed(store, 0, flushed)
    on_disk = lost.commit_log.committed
    indexer = Indexer(Files(), before, SHAPE)
    indexer.log_on_disk = lambda: on_disk
    indexer.open(lost.commit_log.snapshot(), clean=True)
    catch_up(indexer, lost)
    indexer.sync()
    store_keyed(lost, flushed, 150 - flushed)
    for _ in range(2):
        catch_up(indexer, lost)
        indexer.sync()
    indexer.close()
    lost.close()
    store_keyed(store, 1000, later, topic="others")
    for path in (INDEX, INDEX_NOTE):
        if (before / path).is_dir():
            shutil.copytree(before / path, root / path)
        elif (before / path).exists():
            shutil.copy(before / path, root / path)
    again = indexed(store, clean=False)
    agrees(again, store)
    assert sum(each.header.count - 1 for each in again.newest_first()) == 4 * (flushed + later)
    again.close()
    store.close()
