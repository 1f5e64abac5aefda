"""What a disk does not give while a store is opened: gone round, set aside, or too much.

A sector that cannot be read is damage like any other. What is tried again reads, if the trouble was
one of the moment; what does not is taken for lost, and the rest of the store is served.
"""

import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.sectors import TRIES
from aerobee.storage.errors import StoreDamaged
from aerobee.storage.layout import (
    BATCH_ENTRIES,
    BOOT_NOTE,
    CHECKPOINT,
    CONSUME_QUEUE,
    CUT,
    DAMAGE,
    DELAYED,
    DELETED,
    DOUBT,
    EXPIRED,
    LIGHT,
    MENDING,
    PROGRESS,
    is_file_name,
)
from aerobee.storage.log.aside import UNREADABLE, Aside
from aerobee.storage.proofs.progress import PROGRESS_BYTES_MAX
from aerobee.storage.settings import StoreSettings

if TYPE_CHECKING:
    from aerobee.storage.queues.consume_queues import ConsumeQueues

log = logging.getLogger(__name__)

T = TypeVar("T")

QUEUE_FILES_MAX: Final = 100  # that one start sets aside
NOTES: Final = (
    CHECKPOINT, PROGRESS, BOOT_NOTE, DELAYED, DAMAGE, MENDING, CUT, DELETED, EXPIRED, LIGHT,
    DOUBT,
)  # fmt: skip


def persistently(read: Callable[[], T]) -> T:
    """Return what a read gives, some tries later where the disk refuses; the last error counts."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    return read()


def sort_out_notes(files: Files, root: Path) -> None:
    """Set aside the store's own small files that cannot be read: without one a start reads more.

    Raises StoreDamaged, which names the file, where the disk does not let us.
    """
    for name in NOTES:
        path = root / name
        try:
            persistently(partial(files.read_all, path, PROGRESS_BYTES_MAX))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            kept = path.with_name(f"{name}.{UNREADABLE}")
            try:
                files.replace(path, kept)
                if name == DOUBT:  # one that says nothing is still a doubt
                    files.close(files.open(path, create=True))
                files.sync_directory(root)
            except OSError as further:
                raise StoreDamaged(
                    f"{path} cannot be read ({error}), nor set aside ({further}): move the store to"
                    f" a disk that can be written, without {name}, and start again"
                ) from error
            log.error(
                "note_unreadable path=%s error=%s kept=%s advice='the start does without it; the"
                " disk is failing: copy the store to a sound one'", path, error, kept,
            )  # fmt: skip


def set_aside_queue_file(
    files: Files, settings: StoreSettings, queues: "ConsumeQueues", error: BaseException
) -> bool:
    """Move the file of a queue away that an error says cannot be read; False for other errors.

    The queue is noted as one to be written again from the log.
    """
    if not isinstance(error, OSError) or error.errno != errno.EIO or not error.filename:
        return False
    path = Path(os.fsdecode(error.filename))
    topic, number = path.parent.parent.name, path.parent.name
    folders = settings.root / CONSUME_QUEUE, settings.root / BATCH_ENTRIES
    if path.parent.parent.parent not in folders or not number.isdecimal():
        return False
    if not is_file_name(path.name) or _reads(files, path):
        return is_file_name(path.name)
    queues.note_damaged([queues.get(topic, int(number))])
    kept = Aside(files, settings).keep_queue_file(path, UNREADABLE)
    log.error(
        "queue_file_unreadable file=%s error=%s kept=%s advice='it is written again from the log;"
        " the disk is failing: copy the store to a sound one'", path, error, kept,
    )  # fmt: skip
    return True


def _reads(files: Files, path: Path) -> bool:
    """Whether a file can be read after all."""

    def read() -> None:
        fd = files.open(path, write=False)
        try:
            files.read(fd, files.size(path), 0)
        finally:
            files.close(fd)

    try:
        persistently(read)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False
    return True
