"""The files below `timerlog`: a unit for each message that waits, in the order of their arrival."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.timers.codecs import (
    BLANK_UNIT_BYTES,
    UNIT_BYTES,
    Unit,
    decode_unit,
    encode_blank_unit,
    encode_unit,
    is_blank_unit,
)
from aerobee.storage.features.timers.pages import read_pages, write_pages
from aerobee.storage.layout import FileSpan, file_name, file_spans

STEP_BYTES: Final = 20_000 * UNIT_BYTES


class TimerLog:
    """Units by their place; those that no file has yet are in memory, from `written` on.

    All files have one size, that of those which are there. A unit does not span two files: one that
    has no room for it, and a blank behind it, is closed with a blank.
    """

    def __init__(self, files: Files, folder: Path, file_bytes: int) -> None:
        self._files = files
        self._folder = folder
        self._tail = bytearray()
        self._fds: dict[int, int] = {}
        self._rewritten: set[int] = set()  # files that were changed where they were written before
        spans = file_spans(folder)
        self.file_bytes = max((span.size for span in spans), default=0) or file_bytes
        self.begin = spans[0].begin if spans else 0
        self.written = self.end = self.begin

    def start(self, end: int) -> None:
        """Say where the units end; what lies behind, in files or memory, counts as nothing."""
        self._tail.clear()
        self.written = self.end = end

    def append(self, unit: Unit) -> int:
        """Add a unit; return its place."""
        rest = self.file_bytes - self.end % self.file_bytes
        if rest < UNIT_BYTES + BLANK_UNIT_BYTES:
            self._add(encode_blank_unit(rest).ljust(rest, b"\0"))
        place = self.end
        self._add(encode_unit(unit))
        return place

    def _add(self, data: bytes) -> None:
        self._tail += data
        self.end += len(data)

    def unit(self, place: int) -> Unit | None:
        """Return the unit at a place, None where there is none."""
        if not self.begin <= place < self.end:
            return None
        if place >= self.written:
            return decode_unit(self._tail, place - self.written)
        return decode_unit(self._read(place, UNIT_BYTES))

    def stored(self, place: int) -> Unit | None:
        """Return the unit that the files have at a place, wherever the log ends."""
        return decode_unit(self._read(place, UNIT_BYTES))

    def before(self, place: int) -> int:
        """Return the place of the unit before one, in its file or in the one before."""
        if place % self.file_bytes:
            return place - UNIT_BYTES
        last = self.file_bytes - BLANK_UNIT_BYTES
        return place - self.file_bytes + last - last % UNIT_BYTES - UNIT_BYTES

    def units(self, place: int = 0) -> Iterator[tuple[int, Unit]]:
        """Yield the units of the files from a place on, up to the first bytes that are none."""
        at = max(place, self.begin)
        while True:
            data = self._read(at, STEP_BYTES)
            base = at
            while (unit := decode_unit(data, at - base)) is not None:
                yield at, unit
                at += UNIT_BYTES
            if is_blank_unit(data, at - base):
                at += self.file_bytes - at % self.file_bytes
            elif len(data) - (at - base) >= UNIT_BYTES or at == base:
                return

    def places(self, end: int) -> Iterator[tuple[int, Unit | None]]:
        """Yield every place before an end that should have a unit; None for what is none."""
        at = self.begin
        while at < end:
            rest = self.file_bytes - at % self.file_bytes
            count = min(STEP_BYTES, (rest - BLANK_UNIT_BYTES) // UNIT_BYTES * UNIT_BYTES)
            data = self.raw(at, min(count, end - at))
            for begin in range(0, len(data), UNIT_BYTES):
                yield at + begin, decode_unit(data, begin)
            at += len(data)
            if at % self.file_bytes > self.file_bytes - UNIT_BYTES - BLANK_UNIT_BYTES:
                at += self.file_bytes - at % self.file_bytes

    def raw(self, place: int, count: int) -> bytes:
        """Return what a file has from a place on, with zeros for what it has not."""
        return self._read(place, count).ljust(count, b"\0")

    def _read(self, place: int, count: int) -> bytes:
        """Read bytes of one file; fewer at its end, none where it is missing."""
        base = place // self.file_bytes * self.file_bytes
        fd = self._fds.get(base, -1)
        if fd < 0:
            try:
                fd = self._files.open(self._folder / file_name(base), write=False)
            except FileNotFoundError:
                return b""
            if len(self._fds) >= 8:
                self._files.close(self._fds.pop(next(iter(self._fds))))
            self._fds[base] = fd
        count = min(count, base + self.file_bytes - place)
        return read_pages(self._files, fd, self._folder / file_name(base), count, place - base)

    def take(self) -> bytes:
        """Return what no file has yet."""
        return bytes(self._tail)

    def taken(self, place: int) -> None:
        """Forget what files have now, and the disk, up to a place; see `write_units`."""
        del self._tail[: place - self.written]
        self.written = place

    def rewrite(self, place: int, unit: Unit) -> None:
        """Change a unit that a file has."""
        base = place // self.file_bytes * self.file_bytes
        fd = self._files.open(self._folder / file_name(base))
        try:
            self._files.write(fd, encode_unit(unit), place - base)
        finally:
            self._files.close(fd)
        self._rewritten.add(base)

    def sync_rewritten(self) -> None:
        """Return when the disk has what was changed."""
        while self._rewritten:
            base = min(self._rewritten)
            fd = self._files.open(self._folder / file_name(base))
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._rewritten.remove(base)

    def spans(self) -> list[FileSpan]:
        """List the files, oldest first."""
        return file_spans(self._folder)

    def trim(self, log_begin: int) -> None:
        """Remove files of which the last message's record is gone from the log.

        What is damaged does not keep them: of a file whose end is, the next one says it.
        """
        waiting: list[FileSpan] = []
        for span in self.spans():
            if span.begin + span.size > self.written:
                return
            waiting.append(span)
            if (unit := self._last(span)) is None:
                continue
            if unit.position >= log_begin:
                return
            for each in waiting:
                self._remove(each)
            waiting = []

    def _last(self, span: FileSpan) -> Unit | None:
        """Return the last sound unit of a file, None where many at its end are damaged."""
        last = self.before(span.begin + self.file_bytes)
        if (unit := self.stored(last)) is not None:
            return unit
        begin = max(span.begin, last - STEP_BYTES)
        data = self.raw(begin, last - begin)
        backwards = range(len(data) - UNIT_BYTES, -1, -UNIT_BYTES)
        return next(filter(None, (decode_unit(data, at) for at in backwards)), None)

    def _remove(self, span: FileSpan) -> None:
        self.begin = span.begin + span.size
        if (fd := self._fds.pop(span.begin, -1)) >= 0:
            self._files.close(fd)
        self._files.remove(span.path)

    def close(self) -> None:
        """Let go of the files."""
        while self._fds:
            self._files.close(self._fds.popitem()[1])


def write_units(files: Files, folder: Path, file_bytes: int, place: int, data: bytes) -> None:
    """Write units at their place, into files that are made when they are missing, and sync them.

    What lies behind them is cleared, so that nobody takes what a killed process left for more.
    """
    if not folder.is_dir():
        files.make_directory(folder)
    view, end = memoryview(data), place + len(data)
    while place < end:
        base = place // file_bytes * file_bytes
        count = min(end, base + file_bytes) - place
        path = folder / file_name(base)
        fresh = not path.exists()
        fd = files.open(path, create=True)
        try:
            if fresh or files.size(path) != file_bytes:
                files.resize(fd, file_bytes)
            write_pages(files, fd, path, view[:count], place - base)
            if not fresh and place + count == end and end < base + file_bytes:
                files.clear(fd, end - base, base + file_bytes - end)
            files.sync(fd)
        finally:
            files.close(fd)
        if fresh or place == base:  # it may be of a write that was ended midway
            files.sync_directory(folder)
        view, place = view[count:], place + count
