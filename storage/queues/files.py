"""The files of one ConsumeQueue as they lie on the disk: entries, sizes, and where they end."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.layout import ENTRY_BYTES, FileSpan

ENTRY: Final = ENTRY_FIELDS.run()
"""Position, record size, tags code."""
BLANK_ENTRY: Final = ENTRY.pack(0, BLANK_SIZE, 0)

SCAN_ENTRIES: Final = 4096
SCAN_ENTRIES_FIRST: Final = 32  # which is enough where the end is known
TAIL_ENTRIES: Final = 4


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


def open_made(files: Files, path: Path, file_bytes: int) -> int:
    """Open a file to be written, made where it is missing, and its folders, in full size.

    What it has stays as it is, so that two may do this at the same time.
    """
    try:
        fd = files.open(path, create=True)
    except FileNotFoundError:
        files.make_directory(path.parent)
        fd = files.open(path, create=True)
    try:
        if files.size(path) != file_bytes:
            files.resize(fd, file_bytes)
    except OSError:
        files.close(fd)
        raise
    return fd


def first_position(files: Files, span: FileSpan) -> int:
    """Return the position that a file's first entry names, -1 if it names none."""
    fd = files.open(span.name, write=False)
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


def find_end(
    files: Files,
    spans: Sequence[FileSpan],
    begin: int,
    born_at: int = 0,
    *,
    batched: bool = False,
) -> tuple[int, bytes]:
    """Return the offset of the first entry from `begin` on that no message can have.

    None can have one of a position before `born_at`. Where queues are `batched`, messages may share
    a record. Also returns some of the entries right before
    it, of the same file; a queue of which everything is known costs one small read.
    """
    offset, last_position, step = begin, born_at - 1 + batched, SCAN_ENTRIES_FIRST
    tail = before = b""
    for span in spans:
        end = (span.begin + span.size) // ENTRY_BYTES
        low = max(span.begin // ENTRY_BYTES, offset - TAIL_ENTRIES if offset == begin else offset)
        if end <= low:
            continue
        tail, before = b"", tail
        fd = files.open(span.name, write=False)
        try:
            while low < end:
                count = min(step, end - low)
                step = min(step * 8, SCAN_ENTRIES)
                data = _read(files, fd, count * ENTRY_BYTES, low * ENTRY_BYTES - span.begin, span)
                usable = memoryview(data)[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
                for at, (position, size, _) in enumerate(ENTRY.iter_unpack(usable), low):
                    known = at < begin
                    if known and (at < begin - 1 or size <= 0):
                        continue
                    over = size <= 0 or position < 0
                    if size != BLANK_SIZE:  # one that falls back is from before a truncation
                        over |= position + batched <= last_position
                        last_position = max(last_position, position)
                    if over and not known:
                        return at, _last_of(tail, data, at - low) or before
                low += len(usable) // ENTRY_BYTES
                offset = max(begin, low)
                tail = _last_of(tail, data, count)
                if len(usable) < count * ENTRY_BYTES:
                    break  # it has lost its end meanwhile
        finally:
            files.close(fd)
    return offset, tail or before


def _last_of(tail: bytes, data: bytes, count: int) -> bytes:
    """Return the last few of the entries of `tail` and of the first `count` of `data`."""
    whole = tail + data[: count * ENTRY_BYTES]
    return whole[-TAIL_ENTRIES * ENTRY_BYTES :]


def _read(files: Files, fd: int, count: int, at: int, span: FileSpan) -> bytes:
    """Read; an error of the disk says of which file."""
    try:
        return files.read(fd, count, at)
    except OSError as error:
        raise OSError(error.errno, error.strerror, span.name) from error
