"""A sync of a file need not bring its name to the disk: names are synced before progress counts."""

import errno
import os
from pathlib import Path

import pytest
from support.disks.logs import opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import CONSUME_QUEUE, PROGRESS
from aerobee.storage.proofs.progress import read_progress


class Watching(Files):
    """Real files; knows which names below the queues' folder the disk may not have."""

    def __init__(self) -> None:
        self.unsynced: set[Path] = set()
        self.at_progress: list[set[Path]] = []
        self.fails = ""

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Note a new name."""
        path = Path(path)
        self._make(path, made=create and not path.exists())
        return super().open(path, create=create, write=write)

    def make_directory(self, path: Path) -> None:
        """Note new names."""
        for each in (path, *path.parents):
            self._make(each, made=not each.exists())
        super().make_directory(path)

    def _make(self, path: Path, *, made: bool) -> None:
        if made and CONSUME_QUEUE in path.parent.parts:
            self.unsynced.add(path)

    def sync_directory(self, path: Path) -> None:
        """Keep the names in a directory, or fail."""
        if self.fails and path.name == self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().sync_directory(path)
        self.unsynced = {each for each in self.unsynced if each.parent != path}

    def replace(self, source: Path, target: Path) -> None:
        """Note what the disk may not have when a progress file is put in place."""
        if target.name == PROGRESS:
            self.at_progress.append(set(self.unsynced))
        super().replace(source, target)


def test_progress_counts_on_names_that_the_disk_has(tmp_path: Path) -> None:
    """Of new queues with all their folders, of the files that follow, and after a clean stop."""
    files = Watching()
    store = opened(small(tmp_path), files)
    for count in (1, 50, 50):
        for queue_id in range(2):
            for _ in range(count):
                send(store, queue_id=queue_id)
        settle(store)
    send(store, topic="bills")
    store.close()
    assert len(files.at_progress) > 3
    assert not any(files.at_progress), "no name was missing when a progress file was put in place"


def test_names_of_a_dead_process_are_synced_by_the_next_one(tmp_path: Path) -> None:
    """It finds the files, but cannot know whether the disk has their names."""
    files = Watching()
    store = opened(small(tmp_path), files)
    for _ in range(60):
        send(store)
    store.abandon()
    assert files.unsynced
    store = opened(small(tmp_path), files)
    send(store)
    settle(store)
    assert files.at_progress and not any(files.at_progress)
    store.close()


@pytest.mark.parametrize("folder", ["0", "orders", CONSUME_QUEUE])
def test_names_that_could_not_be_synced_are_tried_again(tmp_path: Path, folder: str) -> None:
    """Until then there is no progress that would count on them."""
    files = Watching()
    store = opened(small(tmp_path), files)
    files.fails = folder
    send(store)
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and not progress.queues
    files.fails = ""
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 1}
    assert not any(files.at_progress)
    store.close()


def test_a_queue_that_only_grows_costs_no_sync_of_folders(tmp_path: Path) -> None:
    """Names are synced for a new file, not in each round."""

    class Counting(Watching):
        count = 0

        def sync_directory(self, path: Path) -> None:
            """Count."""
            self.count += 1
            super().sync_directory(path)

    files = Counting()
    store = opened(small(tmp_path), files)
    send(store)
    settle(store)
    before = files.count
    for _ in range(3):
        send(store)
        settle(store)
    assert files.count == before
    store.close()


def test_a_start_syncs_the_names_of_log_files_that_others_have_made(tmp_path: Path) -> None:
    """The maker was killed between the file and its name: what is acknowledged needs both."""
    store = opened(small(tmp_path))
    store.abandon()
    synced: list[Path] = []

    class Listening(Files):
        def sync_directory(self, path: Path) -> None:
            synced.append(path)
            super().sync_directory(path)

    store = opened(small(tmp_path), Listening())
    assert tmp_path / "commitlog" in synced
    store.abandon()
