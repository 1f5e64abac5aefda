"""The disk may refuse each step of a checkpoint, of a stop, of a start: nothing is lost."""

import errno
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from support.disks.logs import ForgetfulFiles, bodies, opened, send, settle, small

from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.settings import SYNC_FLUSH
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

NUMBERS: Final = [errno.EIO, errno.ENOSPC, errno.EMFILE]
STEPS: Final = ["open", "resize", "write", "sync", "replace", "sync_directory", "remove"]
EVERY_REFUSAL: Final = pytest.mark.parametrize(("step", "number"), list(product(STEPS, NUMBERS)))


class Refusing(ForgetfulFiles):
    """One kind of call is refused, for paths in the store's own folder, while `number` is set.

    The folders of log and queues are left alone: what fails there is tested elsewhere.
    """

    root = Path()
    step = ""
    number = 0

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name not in STEPS or name != self.step or not self.number:
            return found
        return self._refusing(found)

    def _refusing(self, call: Callable[..., object]) -> Callable[..., object]:
        def refused(*arguments: object, **options: object) -> object:
            paths = [self.paths.get(a) if isinstance(a, int) else a for a in arguments]
            if any(isinstance(p, Path) and self.root in (p, p.parent) for p in paths):
                raise OSError(self.number, os.strerror(self.number))
            return call(*arguments, **options)

        return refused


def refusing(root: Path, step: str) -> Refusing:
    """A door that refuses nothing yet."""
    files = Refusing()
    files.root, files.step = root, step
    return files


def with_four(root: Path, files: Refusing) -> MessageStore:
    """Return an open store of four messages."""
    store = opened(small(root), files)
    for _ in range(4):
        send(store)
    return store


@EVERY_REFUSAL
def test_a_checkpoint_that_cannot_be_written_leaves_the_older_one(
    tmp_path: Path, step: str, number: int
) -> None:
    """Messages go on; once the disk lets it, the next round writes it, without new messages."""
    files = refusing(tmp_path, step)
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), files)
    send(store)
    settle(store)
    older = read_progress(files, tmp_path)
    files.number = number
    for _ in range(3):
        send(store)
        settle(store)
    assert store.commit_log.refusal is None
    during = read_progress(files, tmp_path)
    assert during is None or during == older or step in ("sync", "sync_directory")
    files.number = 0
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.position == store.commit_log.committed
    check_killed(store, files, 4)


@EVERY_REFUSAL
def test_a_stop_that_cannot_be_noted_is_no_clean_stop(
    tmp_path: Path, step: str, number: int
) -> None:
    """`abort` is there, or everything that it stands for was done."""
    files = refusing(tmp_path, step)
    store = with_four(tmp_path, files)
    files.number = number
    store.close()
    files.number = 0
    progress = read_progress(files, tmp_path)
    if not (tmp_path / "abort").exists():
        assert progress is not None and progress.position == store.commit_log.committed
    store = opened(small(tmp_path), files)
    check_killed(store, files, 4)


@EVERY_REFUSAL
def test_a_start_that_is_refused_serves_reads_and_tries_again(
    tmp_path: Path, step: str, number: int
) -> None:
    """What was there is read; what is sent before the disk takes notes again is refused."""
    files = refusing(tmp_path, step)
    store = with_four(tmp_path, files)
    store.abandon()
    files.number = number
    store = MessageStore(small(tmp_path), files)
    store.open()
    assert bodies(store) == [b"hello"] * 4
    store.close()
    files.number = 0
    store = opened(small(tmp_path), files)
    check_killed(store, files, 4)


def check_killed(store: MessageStore, files: Refusing, count: int) -> None:
    """Kill the store: every message is there, once."""
    store.abandon()
    store = opened(store.settings, files)
    assert bodies(store) == [b"hello"] * count
    store.close()
    assert not (store.settings.root / "abort").exists()
    assert not verify(store.settings).problems
