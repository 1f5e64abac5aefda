"""Queues with entries lost, or one too many: every message is served, at its offset."""

import os
import shutil
from pathlib import Path

import pytest
from support.logs import bodies, opened, send, settle, small

from aerobee.storage.queue_files import ENTRY
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify


def settings_of(root: Path) -> StoreSettings:
    """One log file, one file for each queue."""
    return small(root, segment_bytes=256 * 1024, queue_file_entries=1000)


def queue_file(root: Path, topic: str) -> Path:
    """The only file of queue 0 of a topic."""
    return root / "consumequeue" / topic / "0" / f"{0:020d}"


def edit(path: Path, offset: int, entry: tuple[int, int, int]) -> None:
    """Put another entry at an offset."""
    with path.open("r+b") as file:
        file.seek(offset * ENTRY.size)
        file.write(ENTRY.pack(*entry))


@pytest.mark.parametrize("lost", ["folder", "last noted entry", "end of its file"])
def test_a_lost_queue_has_what_came_since_the_last_checkpoint(tmp_path: Path, lost: str) -> None:
    """Killed between two checkpoints, and the queue is lost: its newest messages are there, too.

    Their offsets would be given a second time otherwise.
    """
    store = opened(settings_of(tmp_path))
    for number in range(40):
        if number == 20:
            settle(store)
        send(store, "a", body=b"%d" % number)
        send(store, "b", body=b"%d" % number)
    store.abandon()
    file = queue_file(tmp_path, "a")
    if lost == "folder":
        shutil.rmtree(file.parent)
    elif lost == "end of its file":
        os.truncate(file, 19 * ENTRY.size)
    else:
        edit(file, 19, (1 << 40, 100, 0))
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == bodies(store, "b") == [b"%d" % number for number in range(40)]
    assert store.damage == ()
    send(store, "a", body=b"40")
    assert store.queue("a", 0).max_offset == 41
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_a_wrong_first_entry_does_not_make_messages_old(tmp_path: Path) -> None:
    """It points far behind its message: what lies before that is no deleted topic's, and mended."""
    store = opened(settings_of(tmp_path))
    for number in range(40):
        send(store, "a", body=b"%d" % number)
    store.close()
    edit(queue_file(tmp_path, "a"), 0, (2000, 100, 0))
    assert verify(settings_of(tmp_path)).deleted_records == 0
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"%d" % number for number in range(40)]
    store.close()


def test_a_flipped_byte_behind_the_end_of_a_queue_is_no_message(tmp_path: Path) -> None:
    """The notes say how many there are; one more would be bytes of anybody's."""
    store = opened(settings_of(tmp_path))
    for number in range(5):
        send(store, "a", body=b"%d" % number)
        send(store, "b", body=b"%d" % number)
    store.close()
    edit(queue_file(tmp_path, "a"), 5, (0, 300, 0))
    store = opened(settings_of(tmp_path))
    assert store.queue("a", 0).max_offset == 5
    send(store, "a", body=b"5")
    store.close()
    assert not verify(settings_of(tmp_path)).problems
