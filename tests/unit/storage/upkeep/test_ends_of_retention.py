"""Retention that is ended after any step, by a kill or a loss of power, loses nothing it keeps."""

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.disks.logs import ForgetfulFiles, bodies, opened, send, settle, small

from aerobee.storage.errors import StoreReadOnly
from aerobee.storage.store import MessageStore
from aerobee.storage.upkeep.wall_time import WallTime
from aerobee.storage.verify import verify

NOW: Final = 1_800_000_000.0
SHORT: Final = "orders"
STEPS: Final = ("remove", "replace", "sync_directory", "sync", "write")


class Ended(BaseException):
    """The process is no more."""


class EndingFiles(ForgetfulFiles):
    """Ends the process before its n-th step that changes the disk; 0: never."""

    left = 0

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name in STEPS and self.left:
            self.left -= 1
            if not self.left:
                raise Ended
        return found


def filled(path: Path, files: EndingFiles) -> MessageStore:
    """A store of some log files, of which all but the last are old, with two topics."""
    store = opened(
        small(path, delete_hours=tuple(range(24)), queue_file_entries=8, clean_files_max=2), files
    )
    for number in range(60):
        send(store, SHORT if number % 2 else "bills", body=b"%d:" % number + bytes(1000))
        store.poll()
    settle(store)
    for span in (path / "commitlog").iterdir():
        os.utime(span, (NOW - 360_000, NOW - 360_000))
    store.retention.time = WallTime(lambda: NOW)
    return store


def cleaned(store: MessageStore, hide_before: int) -> None:
    """Let everything go that may."""
    store.retention.hide_before({SHORT: hide_before})
    store.retention.clean()
    while store.retention.shortening.go_on():
        pass


def chances() -> Iterator[tuple[int, bool]]:
    """Every step, each ended by a kill and by a loss of power."""
    for step in range(1, 14):
        yield step, False
        if step % 3 == 1:
            yield step, True


@pytest.mark.parametrize(("step", "power"), list(chances()))
def test_an_end_after_any_step_loses_nothing_that_is_kept(
    tmp_path: Path, step: int, power: bool
) -> None:
    """The other topic has all that the log has; the short one no more than that, and no hole."""
    files = EndingFiles()
    store = filled(tmp_path, files)
    queue = store.queue(SHORT, 0)
    position = queue.place_of(25)[0]
    files.left = step
    try:
        cleaned(store, position)
    except Ended:
        pass
    finally:
        files.left = 0
    hidden = queue.min_offset >= 25
    store.abandon()
    after = files.crash(tmp_path, random.Random(step)) if power else files
    settings = small(tmp_path, queue_file_entries=8)
    store = opened(settings, after)
    queue = store.queue(SHORT, 0)
    assert not hidden or queue.min_offset == 25, "what was hidden stays so"
    assert queue.min_offset <= 25
    assert queue.max_offset == store.queue("bills", 0).max_offset == 30
    for topic, first in ((SHORT, 1), ("bills", 0)):
        begin = store.queue(topic, 0).min_offset
        expected = [b"%d" % (first + 2 * number) for number in range(begin, 30)]
        assert [body.partition(b":")[0] for body in bodies(store, topic)] == expected
    send(store, SHORT, body=b"more")
    assert bodies(store, SHORT)[-1] == b"more"
    store.close()
    assert not verify(settings).problems


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("step", ["remove", "replace", "sync"])
def test_a_disk_that_refuses_a_step_keeps_all_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    """Full or read-only while something should go: the next look finds it as it was."""
    files = EndingFiles()
    store = filled(tmp_path, files)
    position = store.queue(SHORT, 0).place_of(25)[0]

    def refuses(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(files, step, refuses)
        with pytest.raises(OSError, match="Errno"):
            store.retention.hide_before({SHORT: position})
        if step == "remove":
            assert store.retention.clean() == 0
    assert store.queue(SHORT, 0).min_offset == 0
    cleaned(store, position)
    assert store.queue(SHORT, 0).min_offset == 25
    assert store.retention.removed_files > 0
    store.close()


def test_a_store_that_is_only_read_hides_nothing(tmp_path: Path) -> None:
    """Nothing could be noted."""
    filled(tmp_path, EndingFiles()).close()
    store = MessageStore(small(tmp_path, queue_file_entries=8))
    store._read_only(PermissionError("no right"))
    with pytest.raises(StoreReadOnly):
        store.retention.hide_before({SHORT: 1})


def test_readers_beside_a_removal_get_what_is_there_or_are_told(tmp_path: Path) -> None:
    """A reader that has mapped a file goes on with it; the next read is moved past what went."""
    store = filled(tmp_path, EndingFiles())
    queue = store.queue("bills", 0)
    before = store.read(queue, 0, 4, 1 << 20)
    texts = [bytes(part) for part in before.parts]
    assert store.retention.clean() > 0
    assert [bytes(part) for part in before.parts] == texts
    moved = store.read(queue, 0, 4, 1 << 20)
    assert moved.next_offset > 0
    while store.retention.shortening.go_on():
        pass
    assert store.read(queue, 0, 4, 1 << 20).next_offset == queue.min_offset
    store.close()
