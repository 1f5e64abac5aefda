"""One fixed-size file of a longer sequence of bytes, written from front to back."""

import errno
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.message.layout import BLANK_MAGIC
from aerobee.remoting.message.record import BLANK
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.open_files import OpenFiles
from aerobee.storage.disk.sectors import BadSectors
from aerobee.storage.layout import file_name

ZEROS_READ_BYTES: Final = 1 << 20
ALONE_BYTES: Final = 32 * 1024  # parts that have more on average are written one by one


class LogAccess(msgspec.Struct, frozen=True):
    """How all files of one log are reached: by which door, by how many numbers, around what."""

    files: Files
    write: bool
    open_files: OpenFiles = msgspec.field(default_factory=OpenFiles)
    bad: BadSectors = msgspec.field(default_factory=BadSectors)


class Segment:
    """The bytes `base` to `end` of the log; `ready` tells how far it may be written.

    Invariants: the file always has its full size; everything from the last record to `ready` reads
    as zeros and has disk space; beyond `ready` there may be a hole. Records are written by number;
    the map is for reading, and only what has been written is touched through it. `ready` is counted
    from the start of the log, as every position is. A file that is lost (`stored` is 0) reads as
    zeros and is never mapped. Its number is opened at need; whoever leaves it to somebody else, as
    a sync does, or needs it at any time, as the end of the log, counts up `held` until it is done.
    """

    __slots__ = (
        "_bad", "_fd", "_files", "_map", "_open", "_view", "_write", "base", "end", "held", "path",
        "ready", "size", "stored",
    )  # fmt: skip

    def __init__(
        self,
        access: LogAccess,
        path: Path,
        base: int,
        size: int,
        stored: int = -1,
    ) -> None:
        self._files = access.files
        self._write = access.write
        self._open = access.open_files
        self._bad = access.bad
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None
        self.path = path
        self.base = base
        self.size = size
        self.end = base + size
        self.ready = base
        self.stored = size if stored < 0 else stored  # less where the file has lost its end
        self.held = 0
        self._fd = -1

    @classmethod
    def create(cls, access: LogAccess, directory: Path, base: int, size: int) -> "Segment":
        """Make the file that starts at `base`, full size, without disk space yet.

        A crash between the two steps leaves an empty last file, which loading removes.
        """
        path, files = directory / file_name(base), access.files
        fd = files.open(path, create=True)
        try:
            files.resize(fd, size)
        finally:
            files.close(fd)
        return cls(access, path, base, size)

    @property
    def fd(self) -> int:
        """The number of the file; it may be another one after the next file was opened."""
        if self._fd < 0:
            self._fd = self._open.open(self, lambda: self._files.open(self.path, write=self._write))
        return self._fd

    @property
    def map(self) -> mmap.mmap:
        """The whole file, mapped for reading at first use."""
        if self._map is None:
            self._map = self._files.map(self.fd, self.stored, write=False)
        return self._map

    @property
    def view(self) -> memoryview:
        """The whole file as memory; slices of it are what a read hands out."""
        if self._view is None:
            self._view = memoryview(self.map)
        return self._view

    @property
    def mapped(self) -> memoryview | None:
        """The same, None where nobody has looked at it yet."""
        return self._view

    def read(self, position: int, count: int) -> bytes:
        """Copy bytes out of the file; unlike the map this is safe over holes, too.

        What the disk does not give is zeros while the store is opened, see BadSectors.
        """
        count = min(count, self.end - position)
        self._bad.read_at = position
        if not self.stored:
            return bytes(max(0, count))
        if not self._bad.known(self.path):
            try:
                return self._files.read(self.fd, count, position - self.base)
            except OSError as error:
                if error.errno != errno.EIO or not self._bad.active:
                    raise
        return self._bad.read(self._files, self.fd, self.path, count, position - self.base)

    def next_data(self, position: int) -> int:
        """Return the first position from there on that is no hole, the end if all is."""
        if not self.stored:
            return self.end
        at = self._files.next_data(self.fd, position - self.base)
        return self.end if at is None else self.base + at

    def is_zeros(self) -> bool:
        """Whether the file has no byte but zeros, and all of them can be read."""
        at, zeros = self.base, b""
        while (at := self.next_data(at)) < self.end:
            data = self.read(at, ZEROS_READ_BYTES)
            if self._bad.known(self.path):
                return False
            zeros = zeros or bytes(ZEROS_READ_BYTES)
            if not data or data != zeros[: len(data)]:  # ten times as fast as to count them
                return not data
            at += len(data)
        return True

    def is_closed_at(self, position: int) -> bool:
        """Whether the blank that closes the file begins at a position.

        The magic alone proves nothing: a record whose head has gone bad would hide all behind it.
        """
        rest = BLANK.pack(self.end - position, BLANK_MAGIC)
        return self.read(position, BLANK.size) == rest

    def restore(self, *, closed: bool) -> None:
        """Give a lost or shortened file its size back, as a hole.

        One that is wholly lost and `closed` begins with a blank then: whoever reads the log goes on
        in the next file.
        """
        fresh = not self.stored
        if fresh:
            self._files.close(self._files.open(self.path, create=True))
        self._files.resize(self.fd, self.size)
        if fresh and closed:
            self._files.write(self.fd, BLANK.pack(self.size, BLANK_MAGIC), 0)
        self._files.sync(self.fd)
        self._map = self._view = None
        self.stored = self.size

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write through the file number; a hole gets disk space, or the call raises ENOSPC."""
        self._files.write(self.fd, data, position - self.base)

    def write_parts(self, position: int, parts: Sequence[bytes | memoryview], count: int) -> None:
        """Write parts one behind the other, `count` bytes together, as `write` does.

        Small ones are joined and written at once, large ones are not copied before. After an error
        any of them may be in the file.
        """
        if count < len(parts) * ALONE_BYTES:
            parts = (b"".join(parts),)
        assert count == sum(map(len, parts)), "what was counted is what was packed"
        for part in parts:
            self.write(position, part)
            position += len(part)

    def bad_pages(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end, as positions, of each page that the disk does not give."""
        for begin, end in self._bad.pages(self.path):
            yield self.base + begin, self.base + end

    def clear(self, position: int) -> None:
        """Turn everything from a position to the end into zeros, and forget what was prepared."""
        self._files.clear(self.fd, position - self.base, self.end - position)
        self.ready = min(self.ready, position)

    def prepare(self, until: int, *, zeros: bool) -> None:
        """Give everything from `ready` to `until` disk space, here and now; it reads as zeros.

        They are written where that is asked for, or the file system cannot do without.
        """
        until = min(until, self.end)
        if until > self.ready:
            at, count = self.ready - self.base, until - self.ready
            if zeros or not self._files.allocate(self.fd, at, count):
                self._files.prepare(self.fd, at, count)
            self.ready = until

    def sync(self) -> None:
        """Return when the disk has the content."""
        self._files.sync(self.fd)

    def close(self) -> None:
        """Close the file; memory that readers still hold stays valid until they let go."""
        self._map = self._view = None
        self.let_go()

    def let_go(self) -> None:
        """Close the file number, which the next use opens again; the map needs none."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._open.forget(self)
            self._files.close(fd)
