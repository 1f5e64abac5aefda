"""The ordered files of the log: load, find, roll, trim at both ends."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.open_files import OpenFiles
from aerobee.storage.disk.sectors import BadSectors
from aerobee.storage.layout import file_name, file_spans
from aerobee.storage.log.file_names import check_names, check_sizes, rename_misnamed
from aerobee.storage.log.segment import LogAccess, Segment

log = logging.getLogger(__name__)

BEGIN_BYTES: Final = 4096  # of a file: a record or a blank begins there in one that is used


class Segments:
    """Files of equal size without gaps, oldest first; the last may be prepared and still empty."""

    def __init__(self, files: Files, directory: Path, segment_bytes: int, *, write: bool) -> None:
        self._files = files
        self.write = write
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.items: list[Segment] = []
        self.lost: list[Segment] = []  # missing or too short
        self.long: list[Segment] = []  # with bytes behind their end
        self.bad = BadSectors()
        self._access = LogAccess(files, write, OpenFiles(lambda: files.log_files_max), self.bad)

    def load(self, known_end: int = 0, *, sure: bool = False, aborted: bool = False) -> None:
        """Find every file, each of which is opened at need; an empty last one is removed.

        So are all of them where not one has a byte.

        A file that is missing between two others, or is shorter than it should be, reads as zeros,
        and is in `lost`; of one that is longer the rest is not looked at, and it is in `long`. A
        file that has another's name, as its records say, gets its own. Errors: WrongFileSize where
        the settings may be wrong instead, unless the caller is `sure`; StoreDamaged for names that
        no log of that file size has. Nothing is changed then. `known_end`: the log had records up
        to there. `aborted`: the store was not stopped, and its only file may have lost its end.
        """
        spans = file_spans(self.directory)
        blank = not any(span.size for span in spans)
        while spans and spans[-1].size == 0 and self.write:  # made, but never given its length
            log.warning("log_file_removed file=%s reason=empty", spans[-1].path)
            self._files.remove(spans.pop().path)
            if not blank:
                break
        size = self.segment_bytes
        check_sizes(spans, size, known_end, sure=sure, aborted=aborted)
        check_names(spans, size)
        if self.write:
            spans = rename_misnamed(self._files, spans, size)
            check_names(spans, size)
        for span in spans:
            while self.items and self.end < span.begin:
                self.add_lost()
            stored = min(span.size, size)
            segment = Segment(self._access, span.path, span.begin, size, stored)
            self.items.append(segment)
            if span.size < size:
                self.lost.append(segment)
            if span.size > size:
                self.long.append(segment)

    def add_lost(self) -> None:
        """Count on a file that is not there: it reads as zeros until it is restored."""
        path = self.directory / file_name(self.end)
        segment = Segment(self._access, path, self.end, self.segment_bytes, stored=0)
        self.items.append(segment)
        self.lost.append(segment)

    def restore_sizes(self, end: int, keep: Callable[[Path, int], Path | None]) -> None:
        """Make the files that are lost, and give others their size; the log ends at `end`.

        What a file has behind its size is given to `keep`, which copies it, and then cut off.
        """
        while self.long:
            segment = self.long[-1]
            log.error(
                "log_file_cut file=%s kept=%s", segment.path, keep(segment.path, self.segment_bytes)
            )
            segment.restore(closed=False)
            self.long.pop()
        for segment in self.lost:
            log.warning("log_file_restored file=%s bytes=%d", segment.path, segment.stored)
            segment.restore(closed=segment.end <= end)
        if self.lost:
            self.sync_names()
            self.lost.clear()

    @property
    def begin(self) -> int:
        """The position of the oldest byte kept."""
        return self.items[0].base if self.items else 0

    @property
    def end(self) -> int:
        """One past the last byte that the files can hold."""
        return self.items[-1].end if self.items else 0

    def find(self, position: int) -> Segment | None:
        """Return the file that holds a position."""
        items = self.items
        if not items:
            return None
        index = (position - items[0].base) // self.segment_bytes
        return items[index] if 0 <= index < len(items) else None

    def after(self, segment: Segment) -> Segment | None:
        """Return the file that follows, if it exists."""
        return self.find(segment.end)

    def prepared_bytes(self, position: int) -> int:
        """Return how much disk space the files have behind `position`, by whom ever prepared."""
        prepared = 0
        for segment in reversed(self.items):
            if segment.end <= position:
                break
            used = max(0, position - segment.base)
            prepared += max(0, self._files.allocated_bytes(segment.fd) - used)
        return prepared

    def add(self, *, sync_name: bool = False) -> Segment:
        """Create the file that follows; its name gets durable here, or later by the helper."""
        segment = Segment.create(self._access, self.directory, self.end, self.segment_bytes)
        if sync_name:
            self.sync_names()
        self.items.append(segment)
        return segment

    def sync_names(self) -> None:
        """Return when the names of the files are on the disk."""
        self._files.sync_directory(self.directory)

    def drop_first(self) -> Path:
        """Remove and forget the oldest file; return its path. OSError: it is still there."""
        self._files.remove(self.items[0].path)
        segment = self.items.pop(0)
        segment.close()
        return segment.path

    def drop_after(self, position: int, keep: Callable[[Path], Path]) -> None:
        """Take every file that starts behind `position` out of the log.

        One without a byte but zeros is removed, any other is given to `keep`, which moves it.
        """
        while len(self.items) > 1 and self.items[-1].base > position:
            segment = self.items.pop()
            if segment.is_zeros():
                self._discard(segment)
                continue
            segment.close()
            log.error(
                "log_file_set_aside file=%s kept=%s reason='it lies behind the end of the log, %d'",
                segment.path, keep(segment.path), position,
            )  # fmt: skip

    def drop_unused(self, position: int) -> None:
        """Remove every file that starts behind `position`, where nobody has written but zeros.

        One that begins with anything else was put there meanwhile: the next start keeps it.
        """
        while len(self.items) > 1 and (last := self.items[-1]).base > position:
            if any(last.read(last.base, BEGIN_BYTES)):
                log.warning("log_file_not_removed file=%s reason='it holds something'", last.path)
                return
            self._discard(self.items.pop())

    def _discard(self, segment: Segment) -> None:
        segment.close()
        self._files.remove(segment.path)

    def close(self) -> None:
        """Close all files."""
        for segment in self.items:
            segment.close()
        self.items.clear()
