"""How a start comes to believe the disk again after an earlier process has noted a doubt."""

import logging
from pathlib import Path
from typing import Final

from aerobee.storage.doubt.note import Doubt
from aerobee.storage.files import Files
from aerobee.storage.layout import ENTRY_BYTES, WRITTEN, FileSpan, file_spans, queue_paths
from aerobee.storage.progress import Progress

log = logging.getLogger(__name__)

STEP_BYTES: Final = 1 << 20


def believe_disk(
    files: Files, root: Path, log_dir: Path, doubt: Doubt, progress: Progress | None, aborted: bool
) -> None:
    """Bring to the disk what was doubted, before recovery reads it; then withdraw the doubt.

    Everything behind the doubted position, and behind the proven entries of the queues, is written
    once more as it reads, and synced. That mends what the page cache still has. What the kernel has
    dropped reads as the disk has it; recovery finds it unsound, since it reads from the disk
    afterwards. Killed in between, the note is still there, and so is all that could be read:
    nothing is dropped from the cache before it is synced. OSError: the disk fails still.

    A store that was not stopped, of whose marker nothing is left, counts as doubted from where it
    was proven: the disk may have refused the note.
    """
    position = doubt.read(progress.position if progress is not None else 0)
    if position is None and aborted and progress is not None and not (root / WRITTEN).exists():
        position = progress.position
    if position is None:
        return
    proven = progress.queues if progress is not None else {}
    written = sum(
        _write_anew(files, span, position)
        for span in file_spans(log_dir)
        if span.begin + span.size > position
    )
    for topic, queue_id, directory in queue_paths(root):
        begin = proven.get((topic, queue_id), 0) * ENTRY_BYTES
        for span in file_spans(directory):
            if span.begin + span.size > begin:
                written += _write_anew(files, span, begin)
    log.warning("store_written_anew path=%s position=%d bytes=%d", root, position, written)
    doubt.end()()


def _write_anew(files: Files, span: FileSpan, position: int) -> int:
    """Write a file from a position on as it reads, sync it, forget what is cached of it."""
    begin = at = max(0, position - span.begin)
    written = 0
    fd = files.open(span.path)
    try:
        while at < span.size and (found := files.next_data(fd, at)) is not None:
            data = files.read(fd, min(STEP_BYTES, span.size - found), found)
            if not data:
                break
            if data.count(0) != len(data):  # space that was prepared and not yet used is left
                files.write(fd, data, found)
                written += len(data)
            at = found + len(data)
        files.sync(fd)
        files.drop_cache(fd, begin, span.size - begin)
    finally:
        files.close(fd)
    return written
