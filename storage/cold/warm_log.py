"""The log as far as it is in memory."""

from typing import TYPE_CHECKING

from aerobee.storage.cold.fetching import NotFetchedError
from aerobee.storage.cold.residency import Resident

if TYPE_CHECKING:
    from aerobee.storage.commit_log import CommitLog


class WarmLog:
    """Hands out only memory that can be touched without waiting for the disk.

    What is not yet synced is not asked about: it was written a moment ago.
    """

    def __init__(self, commit_log: "CommitLog", resident: Resident) -> None:
        self._log = commit_log
        self._resident = resident

    @property
    def begin(self) -> int:
        """The position of the oldest byte kept."""
        return self._log.begin

    @property
    def hot(self) -> int:
        """From which position on everything is in memory."""
        return self._log.flushed_position

    def file_at(self, position: int) -> tuple[memoryview, int, int] | None:
        """Return a file as memory, whether it is in memory or not; see CommitLog.file_at."""
        return self._log.file_at(position)

    def is_warm(self, view: memoryview, at: int, count: int, position: int) -> bool:
        """Whether bytes of a view, which lie at a position of the log, are all in memory."""
        return position >= self._log.flushed_position or self._resident(view, at, count) >= count

    def view(self, position: int, count: int) -> memoryview | None:
        """Return bytes of one file, None where the log has none; NotFetchedError for cold ones."""
        view = self._log.view(position, count)
        if view is not None and not self.is_warm(view, 0, count, position):
            raise NotFetchedError
        return view

    def joined(self, position: int, count: int) -> memoryview | None:
        """Return bytes each of which was handed out before."""
        return self._log.view(position, count)
