"""Writes anew what the disk may not have: after a failed sync, or one that nobody has heard of."""

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import write_anew
from aerobee.storage.layout import (
    ABORT,
    BOOT_NOTE,
    ENTRY_BYTES,
    FileSpan,
    file_spans,
    queue_paths,
)
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.doubt import Doubt
from aerobee.storage.proofs.progress import Progress, read_progress
from aerobee.storage.proofs.syncs import Unheard
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)


class Proven(msgspec.Struct, frozen=True):
    """What the disk has for certain: our progress, or without one what `checkpoint` says."""

    progress: Progress | None
    queue_position: int

    @property
    def position(self) -> int:
        """Records before it are on the disk, with their entries."""
        return self.progress.position if self.progress is not None else max(0, self.queue_position)

    def entries(self, topic: str, queue_id: int) -> int:
        """Return how many entries of a queue are."""
        return self.progress.queues.get((topic, queue_id), 0) if self.progress is not None else 0


def write_doubted_anew(
    files: Files, settings: StoreSettings, doubt: Doubt, boot_note: BootNote
) -> None:
    """Bring to the disk what was doubted, before recovery reads it; then withdraw the doubt.

    Everything behind the doubted position, and behind the proven entries of the queues, is written
    once more as it reads, and synced. That mends what the page cache still has. What the kernel has
    dropped reads as the disk has it; recovery finds it unsound, since it reads from the disk
    afterwards. Killed in between, the note is still there, and so is all that could be read:
    nothing is dropped from the cache before it is synced. OSError: the disk fails still.

    A store that was not stopped, of whose boot note nothing is left, counts as doubted from where
    it was proven: the disk may have refused the note.
    """
    root = settings.root
    progress = read_progress(files, root)
    proven = Proven(progress, read_checkpoint(files, root).queue_position)
    position = doubt.read(progress.position if progress is not None else 0)
    aborted = (root / ABORT).exists()
    if position is None and aborted and progress is not None and not (root / BOOT_NOTE).exists():
        position = progress.position
    if position is not None:
        written = sum(
            write_anew(files, span, begin, sync=True)
            for span, begin in (*_of_log(settings, position), *_of_queues(files, root, proven))
        )
        log.warning("store_written_anew path=%s position=%d bytes=%d", root, position, written)
        doubt.end()()
    elif (unheard := boot_note.unheard()) is not None:
        _make_dirty(files, settings, proven, unheard)
    boot_note.leave_in_doubt(proven.position)


def _make_dirty(files: Files, settings: StoreSettings, proven: Proven, unheard: Unheard) -> None:
    """Write anew what syncs had under way of which nobody knows how they have ended.

    If one has failed, the kernel takes the pages for clean, and the next sync would say nothing of
    them; written as they read they are what they were before. So nothing waits for the disk here.
    What was dropped already is for recovery to find, which reads all of it. Killed in between, the
    words are still there.
    """
    places = list[tuple[FileSpan, int]]()
    if unheard.log is not None:
        places += _of_log(settings, max(unheard.log, proven.position))
    if unheard.queues is not None:
        proven = replace(proven, queue_position=max(unheard.queues, proven.position))
        places += _of_queues(files, settings.root, proven)
    written = sum(write_anew(files, span, begin, sync=False) for span, begin in places)
    log.info(
        "store_sync_unheard path=%s log=%s queues=%s bytes=%d",
        settings.root, unheard.log, unheard.queues, written,
    )  # fmt: skip


def _of_log(settings: StoreSettings, position: int) -> Iterator[tuple[FileSpan, int]]:
    """Yield the files of the log that reach behind a position, and from where in each."""
    for span in file_spans(settings.log_dir):
        if span.begin + span.size > position:
            yield span, max(0, position - span.begin)


def _of_queues(files: Files, root: Path, proven: Proven) -> Iterator[tuple[FileSpan, int]]:
    """Yield the files of queues that reach behind the proven entries, and from where in each."""
    for topic, queue_id, directory in queue_paths(root):
        first = proven.entries(topic, queue_id) * ENTRY_BYTES
        for span in reversed(file_spans(directory)):
            if span.begin + span.size <= first:
                break
            yield span, max(0, first - span.begin)
            if not first and _starts_before(files, span, proven.position):
                break


def _starts_before(files: Files, span: FileSpan, position: int) -> bool:
    """Whether the first entry of a queue's file is of a record before a position."""
    fd = files.open(span.path)
    try:
        entry = files.read(fd, ENTRY_BYTES, 0)
    finally:
        files.close(fd)
    if len(entry) < ENTRY_BYTES:
        return False
    at, size, _ = ENTRY.unpack(entry)
    return bool(0 < size < BLANK_SIZE and at + size <= position)
