"""The log closes above one mark and opens below another, for whichever disk is fuller."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogFull
from aerobee.storage.store import MessageStore


class TwoDisks(Files):
    """Log and queues on disks of their own, each as full as it is told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.log = self.queues = 0.5

    def mount(self, path: Path) -> tuple[int, int]:
        """The log's folder is a disk of its own."""
        return (1 if path.name == "elsewhere" else 2), 0

    def disk_used_ratio(self, path: Path) -> float:
        """As the test says."""
        return self.log if path.name == "elsewhere" else self.queues


def two_disks(path: Path) -> tuple[MessageStore, TwoDisks]:
    """A store over two disks, with RocketMQ's marks."""
    files = TwoDisks()
    settings = small(
        path, commit_log_dir=path / "elsewhere", disk_ratio_max=0.9, disk_ratio_force=0.85
    )
    return opened(settings, files), files


def used_by_log(files: TwoDisks, ratio: float) -> None:
    """Fill the log's disk."""
    files.log = ratio


def used_by_queues(files: TwoDisks, ratio: float) -> None:
    """Fill the queues' disk."""
    files.queues = ratio


@pytest.mark.parametrize("fill", [used_by_log, used_by_queues])
def test_a_closed_log_opens_below_the_forcible_mark(
    tmp_path: Path, fill: Callable[[TwoDisks, float], None]
) -> None:
    """Between the marks it stays as it is, so that each file that goes opens nothing."""
    store, files = two_disks(tmp_path)
    for ratio, takes in ((0.87, True), (0.91, False), (0.89, False), (0.851, False), (0.85, True),
                         (0.9, True), (0.95, False), (0.2, True)):  # fmt: skip
        fill(files, ratio)
        store.tick()
        assert store.statistics().writable is takes, ratio
        if takes:
            send(store)
        else:
            with pytest.raises(LogFull, match="fuller than allowed"):
                send(store)
    store.close()


def test_either_disk_has_log_files_removed(tmp_path: Path) -> None:
    """What the log loses its queues lose, too; a disk of queues has no other way to get room."""
    store, files = two_disks(tmp_path)
    for number in range(60):
        send(store, body=b"%d:" % number + bytes(1000))
        store.poll()
    assert store.flusher.flush_all(10)
    store.retention.disk.check()
    assert store.retention.clean() == 0
    files.queues = 0.86
    store.retention.disk.check()
    assert store.retention.clean() > 0
    store.close()


def test_marks_that_change_while_it_is_closed(tmp_path: Path) -> None:
    """A forcible mark above the present use opens the log, a warning mark below it closes it."""
    store, files = two_disks(tmp_path)
    files.log = 0.95
    store.tick()
    files.log = 0.88
    store.tick()
    assert not store.statistics().writable
    at = {"commit_log_dir": tmp_path / "elsewhere"}
    store.apply(small(tmp_path, disk_ratio_max=0.9, disk_ratio_force=0.89, **at))
    store.tick()
    assert store.statistics().writable
    store.apply(small(tmp_path, disk_ratio_max=0.8, disk_ratio_force=0.85, **at))
    store.tick()
    assert not store.statistics().writable, "the lower of both counts"
    store.close()
