"""The only door of exports and lakes to files and folders.

Whoever puts a `Disk` of his own in its place has a disk that refuses what he likes, at any step.
The one thing that does not come through it is Delta's log, which is written by delta-rs.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

MADE_MODE = 0o666  # of a new file, before the process's mask
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


class Disk:
    """The operating system's files and folders, as they are. Raises OSError."""

    # --- looks ---

    def names(self, folder: Path) -> list[str]:
        """What a folder has in it, in order."""
        return sorted(os.listdir(folder))  # noqa: PTH208 - the door itself

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return path.read_bytes()

    def status(self, path: Path) -> os.stat_result:
        """What the system tells of a file or folder, of a link itself."""
        return path.lstat()

    def exists(self, path: Path) -> bool:
        """Whether a file or folder is there."""
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        """Whether a folder is there."""
        return path.is_dir()

    def link_target(self, path: Path) -> Path | None:
        """Where a symbolic link leads, there or not; None for what is none."""
        return path.readlink() if path.is_symlink() else None

    def resolved(self, path: Path) -> Path:
        """The path without links."""
        return path.resolve()

    # --- changes of names ---

    def make_folder(self, path: Path) -> None:
        """Make one folder."""
        path.mkdir()

    def make_folders(self, path: Path) -> list[Path]:
        """Make a folder, and those above it, where they are not there; those that are new."""
        new = [each for each in (path, *path.parents) if not self.exists(each)]
        path.mkdir(parents=True, exist_ok=True)
        return new

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, which nothing else may have."""
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file or folder, in the place of a file that is there."""
        os.rename(source, target)  # noqa: PTH104 - millions of files

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """Remove a folder that holds nothing."""
        path.rmdir()

    def remove_tree(self, path: Path) -> None:
        """Remove a folder with what it holds, as far as that can be done; raises nothing."""
        shutil.rmtree(path, ignore_errors=True)

    def touch(self, path: Path) -> None:
        """Have a file that is there say that it was written now."""
        os.utime(path)

    # --- content ---

    def open(self, path: Path, flags: int = 0) -> int:
        """A number by which a file is written, which is made if need be."""
        return os.open(path, _MAKE | flags, MADE_MODE)

    def write(self, handle: int, data: Any) -> int:
        """Write some bytes; how many the disk took."""
        return os.write(handle, data)

    def fsync(self, handle: int) -> None:
        """Bring a file's content, or the names in a folder, to the disk."""
        os.fsync(handle)

    def close(self, handle: int) -> None:
        """Give a number back."""
        os.close(handle)

    def now(self, probe: Path) -> float:
        """What time the file system has it, by a file that is there for a moment.

        The machines' clocks may differ.
        """
        handle = self.open(probe)
        try:
            os.utime(handle)
            return os.fstat(handle).st_mtime
        finally:
            self.close(handle)
            with suppress(FileNotFoundError):  # another run may have been tidying up
                self.remove(probe)

    # --- made of these ---

    def sync(self, path: Path) -> None:
        """Bring the names in a folder to the disk."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.fsync(handle)
        finally:
            self.close(handle)

    def write_file(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        """Write a file and bring it, but not its name, to the disk."""
        handle = self.open(path, os.O_TRUNC)
        try:
            view = memoryview(data)
            while len(view):
                view = view[self.write(handle, view) :]
            if synced:
                self.fsync(handle)
        finally:
            self.close(handle)


DISK = Disk()
