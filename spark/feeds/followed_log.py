"""The growing end of a log that is followed: a look costs what is new, not what is there."""

from __future__ import annotations

import time
from bisect import bisect_right

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.log_end import grown_end
from aerobee.spark.at_rest.log_files import LogSegment, list_segments
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import Store
from aerobee.storage.layout import file_name

SETTLED_NS = 2_000_000_000  # a folder changed so long ago shows its last change in its time


class Folder:
    """The entries of a folder, read again only when the folder's time says that they changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.names: list[str] = []
        self._seen: tuple[int, int] | None = None

    def changed(self) -> bool:
        """Read the names if they may have changed; whether they were read."""
        try:
            seen = disk.changed_at(self.path)
        except OSError as error:
            disk.check_absent(error, self.path)
            self.names, self._seen = [], None
            return True
        if seen == self._seen:
            return False
        # times are coarse: what is still warm may change once more without another time
        self._seen = seen if time.time_ns() - seen[1] > SETTLED_NS else None
        try:
            self.names = disk.names(self.path)
        except OSError as error:
            disk.check_absent(error, self.path)
            self.names, self._seen = [], None
        return True


class LogTail:
    """One store's log, looked at again and again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._folder = Folder(store.log_dir)
        self._segments: list[LogSegment] = []
        self._end: int | None = None

    def look(self) -> StoreState:
        """The log's files and confirmed end at this moment. Raises StoreUnreadable."""
        changed = self._folder.changed()
        if self._end is None:
            state = StoreState.look(self.store)
            self._segments, self._end = state.segments, state.end
            return state
        if changed:
            self._segments = list_segments(self.store.log_dir)
        else:
            self._measure(self._end)
        if self._segments:
            self._end = grown_end(self._segments, self.store.queues_dir, self._end)
        return StoreState(self.store, self._segments, self._end)

    def forget(self) -> None:
        """Start anew: the log is not the one that was looked at."""
        self._end = None

    def _measure(self, end: int) -> None:
        """See how long the files have become that may still grow."""
        names = [name for name in self._folder.names if name.isdigit() and len(name) == 20]
        at = max(0, bisect_right(names, file_name(end)) - 1)
        segments = self._segments[:at]
        for name in names[at:]:
            path = f"{self.store.log_dir}/{name}"
            try:
                size = disk.size(path)
            except FileNotFoundError:
                self._segments = list_segments(self.store.log_dir)
                return
            if size:
                segments.append(LogSegment(path, int(name), size))
        self._segments = segments
