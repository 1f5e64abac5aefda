"""The ordered files of the log: load, find, roll, trim at both ends."""

import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.files import Files
from aerobee.storage.layout import file_name, file_spans
from aerobee.storage.open_files import OpenFiles
from aerobee.storage.segment import Segment

log = logging.getLogger(__name__)

LOST_FILES_MAX: Final = 100  # in a row; more are another log, not a loss


class Segments:
    """Files of equal size without gaps, oldest first; the last may be prepared and still empty."""

    def __init__(self, files: Files, directory: Path, segment_bytes: int, *, write: bool) -> None:
        self._files = files
        self._write = write
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.items: list[Segment] = []
        self.lost: list[Segment] = []  # missing or too short
        self._open_files = OpenFiles(lambda: files.log_files_max)

    def load(self) -> None:
        """Find every file, each of which is opened at need; an empty last one is removed.

        So are all of them where not one has a byte.

        A file that is missing between two others, or is shorter than they are, reads as zeros, and
        is in `lost`. Errors: WrongFileSize where that cannot be the settings' mistake, or is it;
        StoreDamaged for names that no log of that file size has. Nothing is changed then.
        """
        spans = file_spans(self.directory)
        blank = not any(span.size for span in spans)
        while spans and spans[-1].size == 0 and self._write:  # made, but never given its length
            log.warning("log_file_removed file=%s reason=empty", spans[-1].path)
            self._files.remove(spans.pop().path)
            if not blank:
                break
        size = self.segment_bytes
        for span in spans:
            if span.size > size or not any(each.size == size for each in spans):
                raise WrongFileSize(
                    f"{span.path} has {span.size} bytes, the settings say {size}"
                    " (mappedFileSizeCommitLog): set the size that the store was written with, or"
                    " restore the file"
                )
        for before, after in pairwise(spans):
            missing, rest = divmod(after.begin - before.begin - size, size)
            if rest or missing < 0 or missing > LOST_FILES_MAX:
                raise StoreDamaged(
                    f"the log file {file_name(before.begin + size)} between {before.path} and"
                    f" {after.path} is missing: restore it, or move the files on one side of the"
                    " gap away"
                )
        for span in spans:
            while self.items and self.end < span.begin:
                self.add_lost()
            segment = Segment(
                self._files, span.path, span.begin, size, write=self._write, stored=span.size,
                open_files=self._open_files,
            )  # fmt: skip
            self.items.append(segment)
            if span.size < size:
                self.lost.append(segment)

    def add_lost(self) -> None:
        """Count on a file that is not there: it reads as zeros until it is restored."""
        path = self.directory / file_name(self.end)
        segment = Segment(
            self._files, path, self.end, self.segment_bytes, write=self._write, stored=0,
            open_files=self._open_files,
        )  # fmt: skip
        self.items.append(segment)
        self.lost.append(segment)

    def restore_lost(self, end: int) -> None:
        """Make the files that are lost, and give short ones their size; the log ends at `end`."""
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
        segment = Segment.create(
            self._files, self.directory, self.end, self.segment_bytes, self._open_files
        )
        if sync_name:
            self.sync_names()
        self.items.append(segment)
        return segment

    def sync_names(self) -> None:
        """Return when the names of the files are on the disk."""
        self._files.sync_directory(self.directory)

    def drop_first(self) -> Path:
        """Forget and remove the oldest file; return its path."""
        segment = self.items.pop(0)
        self._discard(segment)
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

    def _discard(self, segment: Segment) -> None:
        segment.close()
        self._files.remove(segment.path)

    def close(self) -> None:
        """Close all files."""
        for segment in self.items:
            segment.close()
        self.items.clear()
