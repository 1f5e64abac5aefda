"""The log as far as it is in memory."""

from typing import TYPE_CHECKING, Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.residency import Copied, Resident
from aerobee.storage.log.heads import HEAD_BYTES, LONG_BYTES, is_record
from aerobee.storage.reads.cold.fetching import NotFetchedError

if TYPE_CHECKING:
    from aerobee.storage.log.commit_log import CommitLog


HOT_BYTES_MAX: Final = 64 << 20  # not yet synced, and surely in memory: others are asked about


class WarmLog:
    """Hands out only memory that can be touched without waiting for the disk.

    What is not yet synced is not asked about: it was written a moment ago. Anything else is handed
    out as a copy, or the page could leave memory while somebody still looks at it.
    """

    def __init__(self, commit_log: "CommitLog", resident: Resident, copied: Copied) -> None:
        self._log = commit_log
        self._resident = resident
        self._copied = copied

    @property
    def begin(self) -> int:
        """The position of the oldest byte kept."""
        return self._log.begin

    @property
    def hot(self) -> int:
        """From which position on everything is in memory.

        Nothing is for certain where the log takes no more messages: after a failed sync the kernel
        may drop what it could not write.
        """
        log = self._log
        if not log.writable:
            return log.committed
        return max(log.flushed_position, log.committed - HOT_BYTES_MAX)

    def file_at(self, position: int) -> tuple[memoryview, int, int] | None:
        """Return a file as memory, whether it is in memory or not; see CommitLog.file_at."""
        return self._log.file_at(position)

    def is_warm(self, view: memoryview, at: int, count: int, position: int) -> bool:
        """Whether bytes of a view, which lie at a position of the log, are all in memory."""
        return position >= self.hot or self._resident(view, at, count) >= count

    def view(self, position: int, count: int) -> memoryview | None:
        """Return bytes of one file, None where the log has none; NotFetchedError for cold ones."""
        view = self._log.view(position, count)
        if view is None or position >= self.hot:
            return view
        copied = None
        if self._resident(view, 0, count) >= count:
            copied = self._copied(view, 0, count)
        if copied is None:
            raise NotFetchedError
        return memoryview(copied)

    def record(self, position: int, size: int) -> memoryview | None:
        """Return a record, None where the log has none there, or another one; see `view`."""
        if not 0 < size < BLANK_SIZE:
            return None
        if size > LONG_BYTES:
            head = self.view(position, HEAD_BYTES)
            if head is None or not is_record(head, 0, position, size):
                return None
        view = self.view(position, size)
        return view if view is not None and is_record(view, 0, position, size) else None

    def joined(self, position: int, count: int) -> memoryview | None:
        """Return bytes each of which was handed out before, None where they are copies."""
        return self._log.view(position, count) if position >= self.hot else None
