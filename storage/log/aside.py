"""Sets aside what cannot be read: under `damaged/`, with a name that says what it is."""

import errno
import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.log.scan import CHUNK_BYTES
from aerobee.storage.log.segment import LogAccess, Segment
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)

DAMAGED: Final = "damaged"
COPY_BYTES_MAX: Final = 256 << 20  # of one span; the bytes of a longer one stay where they are

UNREADABLE: Final = "unreadable"
TORN: Final = "torn"
BEHIND_THE_END: Final = "behind-the-end"
BEHIND_THE_FILE: Final = "behind-the-file"


class Aside:
    """Where one store keeps what it could not read; nothing here is ever removed by us."""

    def __init__(self, files: Files, settings: StoreSettings) -> None:
        self._files = files
        self._kept: set[str] | None = None  # names of the copies that are there
        self._unnamed = False  # whether the disk may not have some of them
        self._root = settings.root
        self._log_dir = settings.log_dir
        self.directory = settings.log_dir.parent / DAMAGED / settings.log_dir.name

    def keep_file(self, path: Path, kind: str) -> Path:
        """Move a log file out of the log; return where it is now."""
        try:
            return self._move(path, self.directory, kind)
        except OSError as error:
            if error.errno != errno.EXDEV:  # the log's folder is a file system of its own
                raise
            return self._move(path, self._log_dir / DAMAGED, kind)

    def keep_behind(self, path: Path) -> Path:
        """Move a log file away that lies behind the end of the log."""
        return self.keep_file(path, BEHIND_THE_END)

    def keep_rest(self, path: Path, size: int) -> Path | None:
        """Copy what a log file has behind its size, durably; None where that is but zeros."""
        base = int(path.name)
        access = LogAccess(self._files, write=False)
        whole = Segment(access, path, base, self._files.size(path))
        try:
            return self.keep_bytes([whole], base + size, whole.end, BEHIND_THE_FILE)
        finally:
            whole.close()

    def keep_queue_file(self, path: Path, kind: str) -> Path:
        """Move a file of a queue out of its folder; return where it is now."""
        queue, topic = path.parent, path.parent.parent
        target = self._root / DAMAGED / topic.parent.name / topic.name / queue.name
        return self._move(path, target, kind)

    def _move(self, path: Path, directory: Path, kind: str) -> Path:
        self._files.make_directory(directory)
        taken = set(self._files.names(directory))
        name = f"{path.name}.{kind}"
        number = 1
        while name in taken:
            number += 1
            name = f"{path.name}.{kind}-{number}"
        self._files.replace(path, directory / name)
        self._files.sync_directory(directory)
        self._files.sync_directory(path.parent)
        return directory / name

    def keep_bytes(self, segments: list[Segment], begin: int, end: int, kind: str) -> Path | None:
        """Copy a stretch of the log, durably; None where it has no byte but zeros.

        The same bytes get the same name, so that a start that is killed here leaves one copy.
        """
        path = self.copy_bytes(segments, begin, end, kind)
        self.sync_names()
        return path

    def sync_names(self) -> None:
        """Bring the names of copies to the disk."""
        if self._unnamed:
            self._files.sync_directory(self.directory)
            self._files.sync_directory(self.directory.parent)
            self._unnamed = False

    def copy_bytes(self, segments: list[Segment], begin: int, end: int, kind: str) -> Path | None:
        """Do what `keep_bytes` does but for `sync_names`: once is enough for many copies."""
        pieces = [
            (segment, max(begin, segment.base), min(end, segment.end))
            for segment in segments
            if segment.base < end and segment.end > begin
        ]
        crc = 0
        found = False
        for segment, low, high in pieces:
            for at, data in _data(segment, low, high):
                crc = zlib.crc32(data, zlib.crc32(b"%d" % at, crc))
                found = True
        if not found:
            return None
        directory = self.directory
        path = directory / f"{begin:020d}-{end:020d}-{crc:08x}.{kind}"
        if self._kept is None:
            self._kept = set(self._files.names(directory))
        if path.name in self._kept:
            self._unnamed = True  # whoever made it may have been killed
            return path
        self._files.make_directory(directory)
        fresh = path.with_name(path.name + ".tmp")
        self._files.remove(fresh)
        fd = self._files.open(fresh, create=True)
        try:
            for segment, low, high in pieces:
                for at, data in _data(segment, low, high):
                    self._files.write(fd, data, at - begin)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.replace(fresh, path)
        self._unnamed = True
        self._kept.add(path.name)
        return path


def _data(segment: Segment, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a stretch that are not all zeros, without the zeros behind the last."""
    at = begin
    while at < end and (at := segment.next_data(at)) < end:
        data = segment.read(at, min(CHUNK_BYTES, end - at))
        if not data:
            return
        if kept := data.rstrip(b"\0"):
            yield at, kept
        at += len(data)
