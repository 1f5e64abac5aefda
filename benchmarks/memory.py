"""Memory that the host has already given: released while a server is measured.

A virtual machine gets its memory page by page from the host and gives free memory back after some
seconds. The first touch of a page then costs the guest up to 10 us, more than storing the messages
that fit in it, and whoever writes fastest pays most. Machines of one's own know no such cost. So
page cache is filled beforehand and given up at the pace at which the servers take it.
"""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
WRITE_BYTES: Final = 64 * 1024  # as the log is prepared, so that the same sizes of pages come free
LOOK_INTERVAL_S: Final = 0.02
AHEAD_BYTES: Final = 64 * MIB  # given up before it is needed


class WarmMemory:
    """Page cache of a deleted file in `directory`, up to `bytes_max`; 0 switches all of it off."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """Fill up, then give up as much as the rest of the page cache grows, until the end."""
        if not self._bytes_max:
            yield
            return
        with tempfile.TemporaryFile(dir=self._directory) as file:
            fill(file.fileno(), self._bytes_max)
            stop = threading.Event()
            thread = threading.Thread(target=self._flow, args=(file.fileno(), stop), daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()

    def _flow(self, fd: int, stop: threading.Event) -> None:
        left = self._bytes_max
        others = cached_bytes() - left
        while left and not stop.wait(LOOK_INTERVAL_S):
            grown = cached_bytes() - left - others
            wanted = max(0, self._bytes_max - grown - AHEAD_BYTES)
            if wanted < left:
                os.ftruncate(fd, wanted)
                left = wanted


def fill(fd: int, size: int) -> None:
    """Write zeros; the pages stay dirty in memory for the seconds that matter."""
    zeros = bytes(WRITE_BYTES)
    for at in range(0, size, WRITE_BYTES):
        os.pwrite(fd, zeros, at)


def cached_bytes() -> int:
    """Return the size of the page cache."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Cached:"):
            return int(line.split()[1]) * 1024
    return 0  # a system without it: nothing is given up
