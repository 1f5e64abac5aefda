"""The log's records, piece by piece, for the thread that indexes them."""

import logging
from pathlib import Path
from typing import Any, Final

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
)
from aerobee.remoting.message.record import BLANK
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index import slices
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.growing import GrowingFile, Taken
from aerobee.storage.log.scan import HEAD, store_timestamp
from aerobee.storage.log.snapshot import LogSnapshot

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 256 << 10
"""What is read at once: it stays in the cache of a CPU until it has been looked at."""

_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


class LogReader:
    """Hands the records from a position on to an index file; steps over damage and blanks.

    It has one file of the log open at a time. What is removed meanwhile is passed over.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._direct = type(files) is Files  # else a test's door sees each read
        self._fd = -1
        self._path: Path | None = None
        self._buffer = bytearray(PIECE_BYTES)
        self.passed_over = 0  # stretches that are no records and that nobody has called damaged

    def take(
        self, log: LogSnapshot, position: int, keys_done: int, bytes_max: int, into: GrowingFile
    ) -> tuple[int, int]:
        """Index up to so many bytes from a position on; return where it ended, and keys done there.

        It ends at the end of a file of the log, too, and where the index file is full. Raises
        OSError where the disk refuses, and for an index file that has no room.
        """
        if position < log.begin:
            return log.begin, 0
        damaged = log.damage.at(position) if log.damage is not None else None
        if damaged is not None:
            return damaged.end, 0
        path, base = log.file(position)
        file_end = base + log.file_bytes
        until = min(position + bytes_max, log.end, file_end)
        if log.damage is not None:
            begins = (span.begin for span in log.damage if span.begin > position)
            until = min(until, next(begins, until))
        try:
            self._open(path)
        except FileNotFoundError:  # retention was quicker
            return file_end, 0
        at, done, why = self._take(base, position, until, keys_done, into)
        if at > position or why == slices.FULL or done != keys_done:
            return at, done
        return self._step(base, position, min(log.end, file_end), file_end, keys_done, into)

    def stored_ms(self, log: LogSnapshot, position: int) -> int | None:
        """Return when the record at a position was stored, None where the log does not have it."""
        if not log.holds(position, RECORD_BYTES_MIN):
            return None
        path, base = log.file(position)
        try:
            self._open(path)
        except FileNotFoundError:
            return None
        data = self._read(base, position, RECORD_BYTES_MIN)
        if len(data) < RECORD_BYTES_MIN:
            return None
        _, magic, _, _, _, _, own, sys_flag = HEAD.unpack_from(data)
        if magic not in (MAGIC_V1, MAGIC_V2) or own != position:
            return None
        return store_timestamp(data, 0, sys_flag)

    def close(self) -> None:
        """Let go of the log's file."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._path = None
            self._files.close(fd)

    def _open(self, path: Path) -> None:
        if path != self._path:
            self.close()
            self._fd = self._files.open(path, write=False)
            self._path = path

    def _take(
        self, base: int, position: int, until: int, keys_done: int, into: GrowingFile
    ) -> Taken:
        """Index what lies between two positions of the open file; return the position behind."""
        loop = loops()
        if self._direct and loop is not slices:

            def take(slots: Any, dirty: Any, entries: Any, state: Any) -> Taken:
                taken: Taken = loop.index_log(
                    self._fd, base, position, until, keys_done, self._buffer, slots, dirty,
                    entries, state,
                )  # fmt: skip
                return taken

            return into.add(take)
        count = min(until - position, PIECE_BYTES)
        return self._take_bytes(self._read(base, position, count), position, keys_done, into)

    def _take_bytes(self, data: bytes, position: int, keys_done: int, into: GrowingFile) -> Taken:
        at, done, why = into.add(
            lambda *arrays: loops().index_records(data, 0, len(data), position, keys_done, *arrays)
        )
        return position + at, done, why

    def _step(
        self, base: int, position: int, until: int, file_end: int, keys_done: int, into: GrowingFile
    ) -> tuple[int, int]:
        """Go on where none was taken: one larger than was read, the closing blank, or no record."""
        if file_end - position < RECORD_BYTES_MIN:
            return file_end, 0
        head = self._read(base, position, BLANK.size)
        if len(head) < BLANK.size:
            raise OSError(f"{self._path} ends at {position - base}, the log goes on to {until}")
        size, magic = BLANK.unpack(head)
        if magic == BLANK_MAGIC and size == file_end - position:
            return file_end, 0
        if magic in (MAGIC_V1, MAGIC_V2) and RECORD_BYTES_MIN <= size <= until - position:
            data = self._record(base, position, file_end)
            at, done, why = self._take_bytes(data, position, keys_done, into)
            if at > position or why == slices.FULL or done != keys_done:
                return at, done
        return self._pass_over(base, position, until), 0

    def _pass_over(self, base: int, position: int, until: int) -> int:
        """Return where the next bytes are that may begin a record, and say that some do not."""
        self.passed_over += 1
        if self.passed_over == 1:
            log.warning("index_passes_over position=%d file=%s", position, self._path)
        at = position + 1
        data = self._read(base, at, min(until - at, PIECE_BYTES))
        found = [place for magic in _MAGICS if (place := data.find(magic, MAGIC_AT)) >= 0]
        return at + (min(found) - MAGIC_AT if found else max(1, len(data) - RECORD_BYTES_MIN))

    def _record(self, base: int, position: int, file_end: int) -> bytes:
        """Read a whole record, as far as its size can be believed."""
        size, _ = BLANK.unpack(self._read(base, position, BLANK.size).ljust(BLANK.size, b"\0"))
        return self._read(base, position, min(max(0, size), file_end - position))

    def _read(self, base: int, position: int, count: int) -> bytes:
        return self._files.read(self._fd, max(0, count), position - base)
