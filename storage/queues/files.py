"""The files of one ConsumeQueue as they lie on the disk: entries, sizes, and where they end."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.layout import ENTRY_BYTES, FileSpan

ENTRY: Final = ENTRY_FIELDS.run()
"""Position, record size, tags code."""
BLANK_ENTRY: Final = ENTRY.pack(0, BLANK_SIZE, 0)

SCAN_ENTRIES: Final = 4096


def check_spans(spans: Sequence[FileSpan], file_bytes: int) -> None:
    """Refuse files of another size, and gaps; only the last file may be short.

    A last file that is too short was cut off by a crash while it was made; what is missing from it
    is found missing later, and written again from the log.
    """
    for span in spans:
        if span.size != file_bytes and not (span is spans[-1] and span.size < file_bytes):
            raise WrongFileSize(
                f"{span.path} has {span.size} bytes, the settings say {file_bytes}"
                " (mappedFileSizeConsumeQueue): set the size that the store was written with, or"
                f" remove {span.path.parent} and the queue is written again from the log"
            )
    for before, after in pairwise(spans):
        if after.begin != before.begin + file_bytes:
            raise StoreDamaged(
                f"a file between {before.path} and {after.path} is missing: remove"
                f" {before.path.parent} and the queue is written again from the log"
            )


def first_position(files: Files, span: FileSpan) -> int:
    """Return the position that a file's first entry names, -1 if it names none."""
    fd = files.open(span.path, write=False)
    try:
        for at in range(0, span.size, SCAN_ENTRIES * ENTRY_BYTES):
            data = _read(files, fd, SCAN_ENTRIES * ENTRY_BYTES, at, span)
            usable = memoryview(data)[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
            for position, size, _ in ENTRY.iter_unpack(usable):
                if 0 < size != BLANK_SIZE:
                    return int(position)
    finally:
        files.close(fd)
    return -1


def remove_behind(files: Files, spans: Sequence[FileSpan], offset: int) -> None:
    """Remove the files that begin with entry `offset` or a later one, the newest first.

    What a loss of power has left of a queue whose end it took would seem to go on behind that.
    """
    for span in reversed(spans):
        if span.begin < offset * ENTRY_BYTES:
            break
        files.remove(span.path)


def find_end(files: Files, spans: Sequence[FileSpan], begin: int, born_at: int = 0) -> int:
    """Return the offset of the first entry from `begin` on that no message can have.

    None can have one of a position before `born_at`.
    """
    last_position = max(born_at - 1, _position_before(files, spans, begin))
    offset = begin
    for span in spans:
        end = (span.begin + span.size) // ENTRY_BYTES
        if end <= offset:
            continue
        fd = files.open(span.path, write=False)
        try:
            while offset < end:
                count = min(SCAN_ENTRIES, end - offset)
                at = offset * ENTRY_BYTES - span.begin
                data = _read(files, fd, count * ENTRY_BYTES, at, span)
                usable = memoryview(data)[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
                for position, size, _ in ENTRY.iter_unpack(usable):
                    if size <= 0 or position < 0:
                        return offset
                    if size != BLANK_SIZE:
                        if position <= last_position:  # left over from before a truncation
                            return offset
                        last_position = position
                    offset += 1
        finally:
            files.close(fd)
    return offset


def _position_before(files: Files, spans: Sequence[FileSpan], offset: int) -> int:
    """Return the position that the entry before an offset names, -1 where there is none."""
    at = (offset - 1) * ENTRY_BYTES
    span = next((each for each in spans if 0 <= at - each.begin < each.size), None)
    if span is None:
        return -1
    fd = files.open(span.path, write=False)
    try:
        data = _read(files, fd, ENTRY_BYTES, at - span.begin, span)
    finally:
        files.close(fd)
    if len(data) < ENTRY_BYTES:
        return -1
    position, size, _ = ENTRY.unpack(data)
    return position if 0 < size != BLANK_SIZE else -1


def _read(files: Files, fd: int, count: int, at: int, span: FileSpan) -> bytes:
    """Read; an error of the disk says of which file."""
    try:
        return files.read(fd, count, at)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(span.path)) from error
