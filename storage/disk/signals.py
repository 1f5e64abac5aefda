"""A file number that wakes the owner's loop: an eventfd, or a pipe where there is none."""

import os
import struct
from contextlib import suppress


class Signal:
    """Readable from `set` to `clear`; the owner's loop watches `fileno()`."""

    def __init__(self, *, eventfd: bool = hasattr(os, "eventfd")) -> None:
        if eventfd:
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        self.is_eventfd = eventfd

    def fileno(self) -> int:
        """Return the number to watch."""
        return self._read

    def set(self) -> None:
        """Make it readable."""
        with suppress(BlockingIOError):  # a full pipe is readable enough
            os.write(self._write, struct.pack("=Q", 1))

    def clear(self) -> None:
        """Make it unreadable."""
        with suppress(BlockingIOError):
            os.read(self._read, 8 if self.is_eventfd else 65536)

    def close(self) -> None:
        """Release it."""
        os.close(self._read)
        if self._write != self._read:
            os.close(self._write)
