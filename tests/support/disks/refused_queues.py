"""A disk that refuses to write files of queues, all of them or some."""

import os
from pathlib import Path

from aerobee.storage.disk.files import Files


class RefusedQueues(Files):
    """Refuses to write to files of queues while it has a number; counts what it is asked."""

    kernel = Files.kernel

    def __init__(self) -> None:
        self.number = 0
        self.where = ""  # to be found in the names of files that are refused
        self.refused = 0
        self.all_fails = 0
        self.all_synced = 0
        self._queue_files: dict[int, Path] = {}

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Remember which files are of queues."""
        path = Path(path)
        fd = super().open(path, create=create, write=write)
        self._queue_files.pop(fd, None)
        if path.parent.name.isdecimal():
            self._queue_files[fd] = path
        return fd

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Refuse, or write."""
        if self.number and self.where in str(path := self._queue_files.get(fd, "")) and path:
            self.refused += 1
            raise OSError(self.number, os.strerror(self.number))
        super().write(fd, data, at)

    def sync_file_system(self, fd: int) -> None:
        """Fail, or count; here each file is on the disk at once."""
        self.all_synced += 1
        if self.all_fails:
            raise OSError(self.all_fails, os.strerror(self.all_fails))
