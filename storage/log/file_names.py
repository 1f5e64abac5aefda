"""Files of the log that have another size or another's name: told from settings that are wrong.

A file's name is the position of its first byte, and the records in it repeat theirs. So the names
of several files say how large each should be, and what a file holds says which name is its own.
"""

import errno
import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BYTES,
    RECORD_FIELDS,
)
from aerobee.remoting.message.record import BLANK
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.layout import FileSpan, file_name

if TYPE_CHECKING:
    from aerobee.storage.log.segment import Segment

log = logging.getLogger(__name__)

LOST_FILES_MAX: Final = 100  # in a row; more are another log, not a loss
REST_BYTES_MAX: Final = 256 << 20  # behind the size of a file, that are copied and cut off
PAGE_BYTES: Final = 4096  # a setting is a multiple of it
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_PREFIX: Final = RECORD_FIELDS.pick("total_size", "magic", "position")


def check_sizes(
    spans: Sequence[FileSpan], size: int, known_end: int, *, sure: bool, aborted: bool
) -> None:
    """Raise WrongFileSize where the setting may be what is wrong, rather than a file.

    It is right if a file has that size or the names say so; or, for a file that is alone, if that
    has been cut: it ends within a page, or before `known_end`, up to which there were records, or
    the store was `aborted`, which a loss of power may have left with the file's size of before.
    `sure`: the user says that it is.
    """
    for span in spans:
        if span.size - size > REST_BYTES_MAX:
            raise WrongFileSize(
                f"{span.path} has {span.size} bytes, the settings say {size}"
                " (mappedFileSizeCommitLog): set the size that the store was written with, or"
                " restore the file"
            )
    if sure or any(span.size == size for span in spans) or _named_by(spans) == size:
        return
    for span in spans:
        end = span.begin + span.size
        cut = span.size % PAGE_BYTES != 0 and size % PAGE_BYTES == 0
        cut |= end < known_end <= span.begin + size or aborted
        if not cut or span.size > size or len(spans) > 1:
            raise WrongFileSize(
                f"{span.path} has {span.size} bytes, the settings say {size}"
                " (mappedFileSizeCommitLog): set the size that the store was written with, or, if"
                " that is right, restore the file or run python -m aerobee.storage.repair --write"
                f" --log-file-bytes {size}"
            )


def check_names(spans: Sequence[FileSpan], size: int) -> None:
    """Raise StoreDamaged for names that no log has, or that leave too many out."""
    for before, after in pairwise(spans):
        missing, rest = divmod(after.begin - before.begin - size, size)
        if rest or missing < 0 or missing > LOST_FILES_MAX:
            raise StoreDamaged(
                f"the log file {file_name(before.begin + size)} between {before.path} and"
                f" {after.path} is missing: restore it, or move the files on one side of the"
                " gap away"
            )


def guess_size(spans: Sequence[FileSpan], known_end: int) -> int | None:
    """Return the size that log files should have, by most of them or by their names; None: unknown.

    A file that is alone, and ends within a page or before `known_end`, has lost something.
    """
    sizes = [span.size for span in spans if span.size]
    named = _named_by(spans)
    if named is None:
        whole = len(sizes) == 1 and sizes[0] % PAGE_BYTES == 0
        return sizes[0] if whole and known_end <= spans[0].begin + sizes[0] else None
    fitting = {size for size in sizes if named % size == 0 and not spans[0].begin % size}
    best = max(fitting, key=lambda size: (sizes.count(size), size), default=named)
    return best if 2 * sizes.count(best) > len(sizes) else named


def _named_by(spans: Sequence[FileSpan]) -> int | None:
    """Return how far apart the names are, where there are several; lost ones leave it too large."""
    apart = [after.begin - before.begin for before, after in pairwise(spans)]
    least = min(apart, default=0)
    return least if least and not any(distance % least for distance in apart) else None


def rename_misnamed(files: Files, spans: list[FileSpan], size: int) -> list[FileSpan]:
    """Give files whose records say so the name that is theirs; return the files as they are then.

    Each step is one call of the system, after which one file more has its name; its bytes stay as
    they are. A file that another with the right records stands in the way of is left: it is damage.
    """
    names = {span.begin: span for span in spans}
    own = {begin: _own_begin(files, span, size) for begin, span in names.items()}
    low = spans[0].begin - LOST_FILES_MAX * size if spans else 0
    high = spans[-1].begin + LOST_FILES_MAX * size if spans else 0
    renamed = True
    while renamed:
        renamed = False
        for begin, target in list(own.items()):
            if target is None or target == begin or own.get(target) == target:
                continue
            if not low <= target <= high:
                continue
            source = names[begin].path
            path = source.with_name(file_name(target))
            if target not in names:
                files.replace(source, path)
                names[target] = FileSpan(str(path), target, names.pop(begin).size)
                own[target] = target
                del own[begin]
            elif files.exchange(source, path):
                sizes = names[begin].size, names[target].size
                names[begin] = FileSpan(str(source), begin, sizes[1])
                names[target] = FileSpan(str(path), target, sizes[0])
                own[begin], own[target] = own[target], target
            else:
                continue
            log.error("log_file_renamed file=%s now=%s reason='its records say so'", source, path)
            renamed = True
    if names.keys() != {span.begin for span in spans} or list(names.values()) != spans:
        files.sync_directory(spans[0].path.parent)
    return [names[begin] for begin in sorted(names)]


def begins_with_its_own(segment: "Segment") -> bool:
    """Whether a file begins with a record that names this place, or has nothing but its end."""
    head = _unpack(segment.read(segment.base, PREFIX_BYTES))
    if head is not None and head[1] in _MAGICS:
        return head[2] == segment.base
    return segment.is_closed_at(segment.base)


def _own_begin(files: Files, span: FileSpan, size: int) -> int | None:
    """Return which file it is by its first two records, which a flipped bit cannot change both."""
    head = _unpack(_head(files, span.path, 0))
    if head is None:
        return None
    count, magic, own = head
    if magic not in _MAGICS or own < 0 or (own - span.begin) % size:
        return None
    if not PREFIX_BYTES < count <= size - BLANK.size:
        return None
    following = _head(files, span.path, count)
    if following[: BLANK.size] == BLANK.pack(size - count, BLANK_MAGIC):
        return own
    second = _unpack(following)
    return own if second is not None and second[1] in _MAGICS and second[2] == own + count else None


def _unpack(head: bytes) -> tuple[int, int, int] | None:
    """Return size, magic and position that a record would have, None where the bytes end."""
    if len(head) < PREFIX_BYTES:
        return None
    size, magic, own = _PREFIX.unpack_from(head)
    return size, magic, own


def _head(files: Files, path: Path, at: int) -> bytes:
    fd = files.open(path, write=False)
    try:
        return files.read(fd, PREFIX_BYTES, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""  # it says nothing; see BadSectors for who reads it next
    finally:
        files.close(fd)
