"""A disk that forgets the unsynced, under a process that ends at a step, or is refused one."""

import errno
import os
import random
from pathlib import Path

from support.disks.logs import ForgetfulFiles


class Killed(BaseException):
    """Stands for the end of the process."""


class Steps(ForgetfulFiles):
    """A disk that forgets the unsynced, under a process that ends before one of its steps."""

    def __init__(self, boot: int = 1) -> None:
        super().__init__(boot)
        self.left = 1 << 30
        self.failing = ""  # so called calls fail
        self.written = 0
        self.removed: tuple[Path, bytes] | None = None  # and the folder is not synced since

    def step(self, name: str = "") -> None:
        """Take one step more; the last one is not taken."""
        self.left -= 1
        if self.left < 0:
            raise Killed
        if name and name == self.failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open, or end before it."""
        self.step("open")
        return super().open(path, create=create, write=write)

    def resize(self, fd: int, size: int) -> None:
        """Resize, or end before it."""
        self.step("resize")
        super().resize(fd, size)

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write all or a half, or end before it."""
        if not self.left and len(data) > 1:
            super().write(fd, bytes(data[: len(data) // 2]), at)
        self.step("write")
        self.written += len(data)
        super().write(fd, data, at)

    def sync(self, fd: int) -> None:
        """Sync, or end before it."""
        self.step("sync")
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        """Sync names, or end before it."""
        self.step("sync_directory")
        super().sync_directory(path)

    def remove(self, path: Path) -> None:
        """Remove, or end before it."""
        self.step("remove")
        if path.exists():
            self.removed = path, path.read_bytes()
        super().remove(path)

    def turned_off(self, folder: Path, chance: random.Random) -> "Steps":
        """Lose what is not on the disk; other files than `.changes` are."""
        for path in folder.iterdir():
            if not path.name.endswith(".changes"):
                self.durable[path] = path.read_bytes()
        after = Steps(self.boot + 1)
        after.durable = self.crash(folder, chance).durable
        if self.removed and not self.removed[0].exists() and chance.random() < 0.5:
            path, content = self.removed
            path.write_bytes(content)
            after.durable[path] = content
        return after
