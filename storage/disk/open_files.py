"""Which files of the log have a file number open: a few, however many files there are."""

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")

OUT_OF_NUMBERS = (errno.EMFILE, errno.ENFILE)


class OpenFile(Protocol):
    """A file that is opened at need."""

    held: int
    """By how many somebody uses its number at this moment."""

    def let_go(self) -> None:
        """Close the number; it is opened again at need."""


class OpenFiles:
    """Lets go of the file that was opened longest ago when there are more than `files_max()`.

    Not of one that is held, nor of the one that was just opened.
    """

    def __init__(self, files_max: Callable[[], int] = lambda: 1 << 30) -> None:
        self._files_max = files_max
        self._open: dict[OpenFile, None] = {}

    def open(self, file: OpenFile, how: Callable[[], T]) -> T:
        """Open a file; where numbers have run out, once more after ours have been let go."""
        try:
            opened = how()
        except OSError as error:
            if error.errno not in OUT_OF_NUMBERS or not self._close(len(self._open)):
                raise
            opened = how()
        self._close(len(self._open) + 1 - self._files_max())
        self._open[file] = None
        return opened

    def forget(self, file: OpenFile) -> None:
        """Take note that a file is closed."""
        self._open.pop(file, None)

    def _close(self, count: int) -> int:
        """Let go of so many, the oldest first; return how many could be."""
        if count <= 0:
            return 0
        idle = [file for file in self._open if not file.held][:count]
        for file in idle:
            with suppress(OSError):  # what it tells of was synced before, or will fail to be
                file.let_go()
        return len(idle)
