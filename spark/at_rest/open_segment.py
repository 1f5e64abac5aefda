"""Files of the CommitLog held open: bytes out of them, and what stands at a place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
)
from aerobee.remoting.message.record import BLANK
from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.spark.records.layout import unaligned

SEARCH_BYTES_FIRST = 16 << 10  # in which a record is looked for, then in four times as much
SEARCH_BYTES = 8 << 20  # at most


class OpenSegment:
    """One CommitLog file held open: reads go on even if the broker deletes it meanwhile."""

    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment
        try:
            self._fd = disk.open_file(segment.path)
        except FileNotFoundError:
            raise DataLost(
                f"{segment.path} (log positions {segment.base} to {segment.end}) is gone: the"
                " broker's retention deleted it after the query was planned; run it again"
            ) from None
        except OSError as error:
            raise StoreUnreadable(f"cannot open {segment.path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        disk.close(self._fd)

    def read_into(self, target: memoryview, position: int) -> None:
        """Fill `target` with the bytes from log position `position` on.

        Raises DataLost where the file ends earlier, StoreUnreadable where it cannot be read.
        """
        done = 0
        while done < len(target):
            try:
                got = disk.read_into(self._fd, [target[done:]], position - self.segment.base + done)
            except OSError as error:
                raise StoreUnreadable(
                    f"cannot read {self.segment.path} at log position {position + done}:"
                    f" {error.strerror}"
                ) from error
            if not got:
                raise DataLost(
                    f"{self.segment.path} ends at log position {position + done}, bytes up to"
                    f" {position + len(target)} were planned: it was cut after the query was"
                    " planned (a broker that recovered, a copy in progress?); run it again"
                )
            done += got

    def is_closed_at(self, position: int) -> bool:
        """Whether the blank that closes a file stands at a log position: one of that size."""
        head = bytearray(BLANK.size)
        self.read_into(memoryview(head), position)
        return BLANK.unpack(head) == (self.segment.end - position, BLANK_MAGIC)

    def find_record(self, start: int, end: int) -> int:
        """The first log position from `start` on where a record's head stands; `end` without one.

        A head is told by its magic number and by the log position that it repeats.
        """
        size = SEARCH_BYTES_FIRST
        while start + PREFIX_BYTES <= end:
            length = min(size + PREFIX_BYTES, end - start)
            buffer = np.empty(length, np.uint8)
            self.read_into(memoryview(buffer)[:length], start)  # type: ignore[arg-type]
            positions = np.arange(start, start + length - PREFIX_BYTES + 1)
            own = unaligned(buffer, ">i8")[POSITION_AT:][: len(positions)] == positions
            magics = unaligned(buffer, ">u4")[MAGIC_AT:]
            for at in np.flatnonzero(own).tolist():
                if magics[at] in (MAGIC_V1, MAGIC_V2):
                    return start + int(at)
            start += len(positions)
            size = min(size * 4, SEARCH_BYTES)
        return end


class OpenLog:
    """Some files of a log that follow each other, the one that was asked for last held open."""

    def __init__(self, segments: Sequence[LogSegment]) -> None:
        self.segments = segments
        self.bases = [segment.base for segment in segments]
        self._file: OpenSegment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.__exit__()

    def file_at(self, position: int) -> OpenSegment | None:
        """The file that has a log position, None where none has. Raises as OpenSegment does."""
        number = bisect_right(self.bases, position) - 1
        if number < 0 or position >= self.segments[number].end:
            return None
        segment = self.segments[number]
        if self._file is None or self._file.segment != segment:
            self.__exit__()
            self._file = OpenSegment(segment)
        return self._file
