"""One store, one broker: the lock file, in a way that a Java broker respects and is held off by."""

import errno
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreDamaged, StoreError, StoreLocked
from aerobee.storage.layout import LOCK, RESTORING

_held: set[Path] = set()
"""Stores that this process has open: a POSIX lock does not protect a process from itself."""


class StoreLock:
    """The file `lock`, locked from open to close (DefaultMessageStore.start)."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root.resolve()
        self._fd = -1

    def take(self, *, restoring: bool = False) -> int:
        """Lock the store and return the lock's file number; StoreLocked if somebody else has it.

        Raises StoreDamaged where a snapshot is half restored, but for who goes on with that.
        """
        path = self._root / LOCK
        if self._root in _held:
            raise StoreLocked(f"{self._root} is already open in this process")
        fd = self._files.open(path, create=True)
        try:
            if not self._files.try_lock(fd):
                raise StoreLocked(
                    f"{self._root} is in use by another broker: stop it, or give this one another"
                    " storePathRootDir"
                )
            if not restoring and self._files.names(self._root / RESTORING):
                raise StoreDamaged(
                    f"{self._root}: a snapshot is half restored here: the same restore again"
                    " completes it"
                )
            self._write_text(fd)
        except OSError as error:
            self._files.close(fd)
            if error.errno in (errno.ENOLCK, errno.ENOTSUP):
                raise StoreLocked(f"{path} cannot be locked: {error}") from error
            raise
        except StoreError:
            self._files.close(fd)
            raise
        self._fd = fd
        _held.add(self._root)
        return fd

    @property
    def is_held(self) -> bool:
        """Whether it is taken, by this."""
        return self._fd >= 0

    def is_taken(self) -> bool:
        """Whether another process has the store, as far as who may only read it can tell."""
        try:
            fd = self._files.open(self._root / LOCK, write=False)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return self._files.is_locked(fd)
        finally:
            self._files.close(fd)

    def _write_text(self, fd: int) -> None:
        """Leave what Java leaves; nobody reads it, so a full disk may keep it out."""
        try:
            self._files.write(fd, b"lock", 0)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def release(self) -> None:
        """Let the next broker in; the file stays."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            _held.discard(self._root)
            self._files.close(fd)
