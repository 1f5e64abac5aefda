"""Queues that a start has cut back to the log, until the disk knows where they end."""

from contextlib import suppress

from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.files import Files
from aerobee.storage.layout import ENTRY_BYTES


class CutEnds:
    """What was cut off could be there again after a power loss, as long as the disk has it.

    By then the log has other messages in that place: an entry would stand against the message that
    has got its offset.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._cut: list[tuple[ConsumeQueue, int]] = []

    def add(self, queue: ConsumeQueue, old_end: int) -> None:
        """Note a queue that had entries up to `old_end`."""
        self._cut.append((queue, old_end))

    def sync(self) -> None:
        """Return when the disk has forgotten the entries; OSError: to be called again."""
        while self._cut:
            self._sync(*self._cut[-1])
            self._cut.pop()

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
