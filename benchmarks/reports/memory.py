"""Memory that the host has already given: released while a server is measured.

A virtual machine gets its memory page by page from the host and gives free memory back after some
seconds. The first touch of a page then costs the guest 10 us instead of 0.8, more than storing the
messages that fit in it, and whoever writes fastest pays most. Machines of one's own know no such
cost. So a file in memory is filled beforehand and given up at the pace at which the servers take
memory. It is large enough for the fastest: whoever comes to its end pays the price again. Where
sockets and threads take memory too, all of it is filled, as on machines that have run for long.
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
NEEDED_BYTES_PER_S: Final = 1200 * MIB  # of a million messages of 1 KiB, as batches come
SHARE_MAX: Final = 1 / 4  # of the machine's memory
FREE_LEAST_BYTES: Final = 800 * MIB  # a few seconds' need, less than a host takes back meanwhile
STEP_BYTES: Final = 16 * MIB


class WarmMemory:
    """A file in memory of `bytes_max`, which no disk has to write; 0 switches all of it off."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """Fill up, then give up as much as the rest of the page cache grows, until the end."""
        if not self._bytes_max:
            yield
            return
        fd = os.memfd_create("warm-memory")
        try:
            fill(fd, self._bytes_max)
            stop = threading.Event()
            thread = threading.Thread(target=self._flow, args=(fd, stop), daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
        finally:
            os.close(fd)

    def _flow(self, fd: int, stop: threading.Event) -> None:
        left = self._bytes_max
        others = cached_bytes() - left
        while left and not stop.wait(LOOK_INTERVAL_S):
            grown = cached_bytes() - left - others
            wanted = max(0, self._bytes_max - grown - AHEAD_BYTES)
            if wanted < left:
                os.ftruncate(fd, wanted)
                left = wanted


class FullMemory:
    """Fills all free memory with pages of a file with holes, which may be dropped at any time.

    `folder` must lie on a disk: files in memory have no pages for holes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """Fill up, which takes up to a minute; then keep a little free, until the end."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            fd = file.fileno()
            os.truncate(fd, known_bytes("MemTotal"))
            held = self._read(fd)
            stop = threading.Event()
            thread = threading.Thread(target=self._flow, args=(fd, held, stop), daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()

    def _read(self, fd: int) -> int:
        at, into = 0, bytearray(STEP_BYTES)
        while known_bytes("MemFree") > FREE_LEAST_BYTES:
            got = os.preadv(fd, [into], at)
            if not got:
                break
            at += got
        return at

    def _flow(self, fd: int, held: int, stop: threading.Event) -> None:
        at = 0
        while at < held and not stop.wait(LOOK_INTERVAL_S):
            while at < held and known_bytes("MemFree") < FREE_LEAST_BYTES:
                os.posix_fadvise(fd, at, STEP_BYTES, os.POSIX_FADV_DONTNEED)
                at += STEP_BYTES


def fill(fd: int, size: int) -> None:
    """Write zeros into all of it."""
    zeros = bytes(WRITE_BYTES)
    for at in range(0, size, WRITE_BYTES):
        os.pwrite(fd, zeros, at)


def needed_bytes(seconds: float) -> int:
    """Return how much the fastest server may take in so many seconds, as far as there is enough."""
    wanted = int(seconds * NEEDED_BYTES_PER_S)
    return min(wanted, int(known_bytes("MemTotal") * SHARE_MAX)) // MIB * MIB


def cached_bytes() -> int:
    """Return the size of the page cache, files in memory included."""
    return known_bytes("Cached")


def known_bytes(name: str) -> int:
    """Return what the system says of its memory, 0 where it says nothing."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
