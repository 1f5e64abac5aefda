"""Where the log of a store that is being written ends."""

import enum
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import (
    BLANK_FIELDS,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import FileSpan
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import read_progress

_HEAD: Final = RECORD_FIELDS.pick("total_size", "magic", "position")
_BLANK: Final = BLANK_FIELDS.run()
_STEP_BYTES: Final = 4 << 20
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


class _Behind(enum.Enum):
    NOTHING = 0
    NEXT_FILE = 1
    OTHER_BYTES = 2


def find_end(files: Files, root: Path, spans: list[FileSpan]) -> int | None:
    """Return where the log's last record ends; None where no record leads there.

    It goes by the heads of records, from the latest place at which one is known to begin. The
    bytes before the end are there: a broker writes them in their order. What follows the end may
    be half of a commit, and is acknowledged to nobody who asked before this.
    """
    if not spans:
        return 0
    proven = max(_known(files, root), _begun(files, spans))
    written = BootNote(files, root).read()
    at = _walk(files, spans, proven)
    if written is not None and at is not None and at < written <= spans[-1].begin + spans[-1].size:
        return None  # damage between them: what is behind it nothing here can find
    return at


def _begun(files: Files, spans: list[FileSpan]) -> int:
    """Return where the newest file begins that has something: each begins with a record."""
    for number in range(len(spans) - 1, 0, -1):
        if _any_begun(files, spans[number : number + 1]):
            return spans[number].begin
    return spans[0].begin


def _known(files: Files, root: Path) -> int:
    progress = read_progress(files, root)
    position = read_checkpoint(files, root).queue_position
    return max(position, progress.position if progress is not None else 0)


def _walk(files: Files, spans: list[FileSpan], begin: int) -> int | None:
    """Follow heads to the end; None where bytes stand there that are no record."""
    at = begin
    for number, span in enumerate(spans):
        end = span.begin + span.size
        if end <= at:
            continue
        if span.begin > at:
            return None  # a file between them has gone
        fd = files.open(span.path, write=False)
        try:
            at, found = _walk_file(files, fd, span, at)
        finally:
            files.close(fd)
        if found is _Behind.NOTHING:
            return None if _any_begun(files, spans[number + 1 :]) else at
        if found is _Behind.OTHER_BYTES:
            return None
        at = end
    return at


def _any_begun(files: Files, spans: list[FileSpan]) -> bool:
    """Whether one of the files that only space was prepared in has something."""
    for span in spans:
        fd = files.open(span.path, write=False)
        try:
            if any(files.read(fd, _BLANK.size, 0)):
                return True
        finally:
            files.close(fd)
    return False


def _walk_file(files: Files, fd: int, span: FileSpan, at: int) -> tuple[int, _Behind]:
    """Return where the records of a file end, and what is behind them.

    That is as it was when it was read: what has come since follows the end.
    """
    end, base, data = span.begin + span.size, at, b""
    while at < end:
        here = at - base
        if not 0 <= here <= len(data) - _HEAD.size:
            data, base, here = files.read(fd, min(_STEP_BYTES, end - at), at - span.begin), at, 0
        if len(data) - here < _BLANK.size:
            return at, _Behind.NOTHING
        total, magic = _BLANK.unpack_from(data, here)
        if magic == BLANK_MAGIC and total == end - at:
            return end, _Behind.NEXT_FILE
        if not total and not magic:
            return at, _Behind.NOTHING
        if len(data) - here < _HEAD.size:
            return at, _Behind.OTHER_BYTES
        total, magic, own = _HEAD.unpack_from(data, here)
        if magic not in _MAGICS or own != at or not RECORD_BYTES_MIN <= total <= end - at:
            return at, _Behind.OTHER_BYTES
        at += total
    return at, _Behind.NEXT_FILE
