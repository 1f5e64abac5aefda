"""Queues that a start has cut back to the log, until the disk knows where they end."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.layout import CUT, ENTRY_BYTES
from aerobee.storage.proofs.progress import (
    PROGRESS_BYTES_MAX,
    Progress,
    decode_progress,
    encode_progress,
)
from aerobee.storage.queues.consume_queue import ConsumeQueue


class CutEnds:
    """What was cut off could be there again after a power loss, as long as the disk has it.

    By then the log has other messages in that place: an entry would stand against the message that
    has got its offset. A note says which entries those are before anything of them is synced: a
    start that is killed after that sync has failed leaves zeros in memory that count as clean, and
    the next one would find nothing to cut. The file is a progress file without positions, with the
    ends that the queues had.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._path = root / CUT
        self._cut: list[tuple[ConsumeQueue, int]] = []
        self._noted: dict[tuple[str, int], int] = {}

    def load(self, find: Callable[[str, int], ConsumeQueue | None]) -> None:
        """Take over what an earlier start has cut, and not brought to the disk."""
        data = self._files.read_all(self._path, PROGRESS_BYTES_MAX)
        noted = decode_progress(data) if data else None
        self._noted = dict(noted.queues) if noted is not None else {}
        for key, old_end in self._noted.items():
            if (queue := find(*key)) is not None:
                self._cut.append((queue, old_end))

    def add(self, queue: ConsumeQueue, old_end: int) -> None:
        """Take a queue that had entries up to `old_end`."""
        self._cut.append((queue, old_end))

    def note(self) -> None:
        """Note durably what is to be erased; OSError: it is not, and nothing may be synced."""
        wanted = dict(self._noted)
        for queue, old_end in self._cut:
            key = (queue.topic, queue.queue_id)
            wanted[key] = max(old_end, wanted.get(key, 0))
        if wanted != self._noted:
            replace_file(self._files, self._path, encode_progress(Progress(0, 0, wanted)))
            self._noted = wanted

    def sync(self) -> None:
        """Return when the disk has forgotten the entries; OSError: to be called again."""
        self.note()
        while self._cut:
            self._sync(*self._cut[-1])
            self._cut.pop()
        if self._noted:
            self._files.remove(self._path)
            self._noted = {}

    def _sync(self, queue: ConsumeQueue, old_end: int) -> None:
        """Erase and sync; all of it again after a failure, of which the next sync says nothing."""
        queue.write_dropped()
        file_entries = queue.file_bytes // ENTRY_BYTES
        end = queue.max_offset
        base = end // file_entries * file_entries
        with suppress(FileNotFoundError):
            fd = queue.open_file(base)
            try:
                count = min(old_end, base + file_entries) - end
                if count > 0:
                    self._files.write(fd, bytes(count * ENTRY_BYTES), (end - base) * ENTRY_BYTES)
                self._files.sync(fd)
            except OSError:
                queue.dropped_from = max(base, queue.flushed_offset)
                with suppress(OSError):  # then it is tried before the next sync
                    queue.write_dropped()
                raise
            finally:
                self._files.close(fd)
        for directory in (queue.directory, *queue.directory.parents[:2]):
            if directory.exists():
                return self._files.sync_directory(directory)
