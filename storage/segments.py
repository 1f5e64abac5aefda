"""The ordered files of the log: load, find, roll, trim at both ends."""

import logging
from itertools import pairwise
from pathlib import Path

from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.files import Files
from aerobee.storage.layout import file_name, file_spans
from aerobee.storage.segment import Segment

log = logging.getLogger(__name__)


class Segments:
    """Files of equal size without gaps, oldest first; the last may be prepared and still empty."""

    def __init__(self, files: Files, directory: Path, segment_bytes: int, *, write: bool) -> None:
        self._files = files
        self._write = write
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.items: list[Segment] = []

    def load(self) -> None:
        """Open every file; an empty last one is removed, any other wrong size is an error."""
        spans = file_spans(self.directory)
        if spans and spans[-1].size == 0 and self._write:  # made, but never given its length
            log.warning("log_file_removed file=%s reason=empty", spans[-1].path)
            self._files.remove(spans.pop().path)
        for span in spans:
            if span.size != self.segment_bytes:
                raise WrongFileSize(
                    f"{span.path} has {span.size} bytes, the settings say {self.segment_bytes}"
                    " (mappedFileSizeCommitLog): set the size that the store was written with, or"
                    " restore the file"
                )
        for before, after in pairwise(spans):
            if after.begin != before.begin + self.segment_bytes:
                raise StoreDamaged(
                    f"the log file {file_name(before.begin + self.segment_bytes)} between"
                    f" {before.path} and {after.path} is missing: restore it, or move the files on"
                    " one side of the gap away"
                )
        for span in spans:
            self.items.append(
                Segment(self._files, span.path, span.begin, self.segment_bytes, write=self._write)
            )

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
        segment = Segment.create(self._files, self.directory, self.end, self.segment_bytes)
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

    def drop_after(self, position: int) -> None:
        """Remove every file that starts behind `position`."""
        while len(self.items) > 1 and self.items[-1].base > position:
            self._discard(self.items.pop())

    def _discard(self, segment: Segment) -> None:
        segment.close()
        self._files.remove(segment.path)

    def close(self) -> None:
        """Close all files."""
        for segment in self.items:
            segment.close()
        self.items.clear()
