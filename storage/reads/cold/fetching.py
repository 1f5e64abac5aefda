"""Reads what a ColdRead wishes for, in whatever thread may wait for the disk.

Everything is opened by its name and read with `pread`: the store may remove files meanwhile, and
what was removed is found missing. It shares nothing with the store that changes.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import ENTRY_BYTES, file_name
from aerobee.storage.log.heads import HEAD_BYTES, LONG_BYTES, is_record
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.reads.cold.request import ColdRequest

GAP_BYTES_MAX: Final = 16 * 1024  # between two records that are read as one piece
PIECE_BYTES_MAX: Final = 1 << 20  # of records that are read as one piece; one record may be longer
AHEAD_BYTES: Final = 1 << 20  # that the kernel is asked to have ready where reads follow closely

Span = tuple[int, int]  # of the log: begin and end


class NotFetchedError(Exception):
    """A record that was not wished for: the read ends before it."""


class Fetched:
    """Entries and records that were read for a request; what a Reader takes instead of maps."""

    def __init__(
        self,
        request: ColdRequest,
        entries: bytes,
        pieces: dict[int, bytes],
        tried: frozenset[int],
        missing: Iterable[Path] = (),
    ) -> None:
        self.request = request
        self._missing = tuple(missing)  # files of the log that were not there
        self._entries = entries
        self._pieces = {begin: memoryview(data) for begin, data in pieces.items()}
        self._tried = tried  # positions of records; what is in no piece of them is no more

    def check_files(self, folder: Path, offset: int, begin: int) -> None:
        """Raise FileNotFoundError where a file was missing though nobody has removed it.

        The queue in `folder` still has the offset, and the log begins at position `begin`.
        """
        lost = [path for path in self._missing if int(path.name) >= begin]
        if not self._entries and (folder, offset) == (
            self.request.queue.folder,
            self.request.offset,
        ):
            lost.append(folder)
        if lost:
            raise FileNotFoundError(errno.ENOENT, "files of the store are lost", str(lost[0]))

    @property
    def begin(self) -> int:
        """The position of the oldest byte kept, as it was."""
        return self.request.log.begin

    def run(self, offset: int, count: int) -> tuple[bytes, int, int]:
        """Return (entries, byte place, how many there are) from an offset on; see QueueEntries."""
        at = (offset - self.request.offset) * ENTRY_BYTES
        if not 0 <= at < len(self._entries):
            return b"", 0, 0
        return self._entries, at, min(count, (len(self._entries) - at) // ENTRY_BYTES)

    def file_at(self, position: int) -> tuple[memoryview, int, int] | None:
        """Return the piece that holds a position, its begin and its end; see CommitLog.file_at."""
        found = self._piece_at(position)
        damage = self.request.log.damage
        if damage is not None and found is not None and damage.touches(*found[1:]):
            return None
        return found

    def view(self, position: int, count: int) -> memoryview | None:
        """Return bytes of the log, None where they are gone; NotFetchedError for any others."""
        if not self.request.log.holds(position, count):
            return None
        found = self._piece_at(position)
        if found is not None and position + count <= found[2]:
            return found[0][position - found[1] : position - found[1] + count]
        if position in self._tried:
            return None
        raise NotFetchedError

    def record(self, position: int, size: int) -> memoryview | None:
        """Return a record, None where it is gone, or another one is there; see `view`."""
        if not 0 < size < BLANK_SIZE:
            return None
        found = self._piece_at(position)  # of one that was found to be another: its head alone
        if found is None or position + HEAD_BYTES > found[2]:
            return self.view(position, size)
        is_there = is_record(found[0], position - found[1], position, size)
        return self.view(position, size) if is_there else None

    joined = view

    def _piece_at(self, position: int) -> tuple[memoryview, int, int] | None:
        for begin, piece in self._pieces.items():
            if begin <= position < begin + len(piece):
                return piece, begin, begin + len(piece)
        return None

    @property
    def hot(self) -> int:
        """From which position on everything is in memory."""
        return 0


def fetch(files: Files, request: ColdRequest) -> Fetched:
    """Read what is wished for; raises OSError where the disk refuses, not for what is gone.

    A file that is shorter than what was written to it has lost its end: that is an error, too.
    """
    entries = _entries(files, request)
    pieces: dict[int, bytes] = {}
    missing: dict[Path, None] = {}
    records = list(_records(files, request, entries))
    spans = list(_pieces(request, records))
    for begin, end in spans:
        path, base = request.log.file(begin)
        try:
            fd = files.open(path, write=False)
        except FileNotFoundError:
            missing[path] = None
            continue
        try:
            pieces[begin] = read_whole(files, fd, end - begin, begin - base, path)
            if (begin, end) == spans[-1] and end - spans[0][0] <= AHEAD_BYTES:
                read_ahead(fd, end - base)
        finally:
            files.close(fd)
    tried = frozenset(position for position, _ in records)
    return Fetched(request, entries, pieces, tried, missing)


def read_whole(files: Files, fd: int, count: int, at: int, path: Path) -> bytes:
    """Read so many bytes; OSError where the file ends before, or the disk refuses."""
    data = files.read(fd, count, at)
    if len(data) < count:
        words = f"the file has lost its end: nothing from byte {at + len(data)} on can be read"
        raise OSError(errno.EIO, words, str(path))
    return data


def read_ahead(fd: int, at: int) -> None:
    """Ask the kernel for what comes next, so that who reads on need not come here each time."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(fd, at, AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def _entries(files: Files, request: ColdRequest) -> bytes:
    queue = request.queue
    base = request.offset // queue.file_entries * queue.file_entries
    if (at := request.offset - queue.in_files) >= 0:
        return queue.tail[at * ENTRY_BYTES : (at + request.count) * ENTRY_BYTES]
    count = min(request.count, base + queue.file_entries - request.offset, -at)
    path = queue.folder / file_name(base * ENTRY_BYTES)
    try:
        fd = files.open(path, write=False)
    except FileNotFoundError:
        return b""
    try:
        at = (request.offset - base) * ENTRY_BYTES
        return read_whole(files, fd, count * ENTRY_BYTES, at, path)
    finally:
        files.close(fd)


def _pieces(request: ColdRequest, records: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans of the log to read: neighbours together, none beyond a file's end."""
    span: Span | None = None
    gaps = 0  # all together no more than what is wished for
    for position, size in records:
        end = position + size
        if span is not None:
            begin, before = span
            gap = position - before
            near = 0 <= gap <= GAP_BYTES_MAX and gaps + gap <= request.bytes_max
            if (
                near
                and end - begin <= PIECE_BYTES_MAX
                and request.log.file(begin) == request.log.file(position)
            ):
                gaps += gap
                span = begin, end
                continue
            yield span
        span = position, end
    if span is not None:
        yield span


def _records(files: Files, request: ColdRequest, entries: bytes) -> Iterator[Span]:
    """Yield position and size of the records that the read would take, as far as they can be.

    Of a long one that is not what its entry says the head alone, which shows that.
    """
    log, count, total, before = request.log, 0, 0, -1
    for position, size, code in ENTRY.iter_unpack(entries):
        if position == before:
            continue  # messages that share a record
        before = position
        if request.wanted is not None and code not in request.wanted:
            continue
        if total and (count >= request.messages_max or total + size > request.bytes_max):
            return
        if not 0 < size < BLANK_SIZE or not log.holds(position, size):
            continue
        if size > LONG_BYTES and not _is_there(files, log, position, size):
            yield position, HEAD_BYTES
            continue
        count += not request.every
        total += size
        yield position, size


def _is_there(files: Files, log: LogSnapshot, position: int, size: int) -> bool:
    """Whether the log has a record of that size there; True as well where its file is gone."""
    path, base = log.file(position)
    try:
        fd = files.open(path, write=False)
    except FileNotFoundError:
        return True
    try:
        head = read_whole(files, fd, HEAD_BYTES, position - base, path)
    finally:
        files.close(fd)
    return is_record(head, 0, position, size)
