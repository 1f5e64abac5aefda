"""Whether all of an index file agrees with itself, the log and its check sums."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from isal.isal_zlib import crc32

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import (
    SLOT_BYTES,
    IndexFile,
    IndexHeader,
    IndexShape,
    decode_header,
    encode_header,
)
from aerobee.storage.features.index.slices import ENTRY
from aerobee.storage.features.index.sums import (
    DamagedIndexError,
    EntrySums,
    IndexSums,
    sums_of_slots,
    sums_or_none,
    write_sums,
)
from aerobee.storage.layout import INDEX_HEADER_FIELDS

log = logging.getLogger(__name__)

ENTRIES_AT_ONCE: Final = 1 << 16


def look_through(
    files: Files,
    path: Path,
    shape: IndexShape,
    log_end: int,
    known: IndexSums | None,
    goes_on: Callable[[], bool] = lambda: True,
) -> IndexSums | None:
    """Look at all of an index file, and return the sums that it ought to have.

    None where it was not to go on, which it asks now and then. Raises DamagedIndexError for a file
    that does not agree with itself, the log's end, or the sums `known` of it; and OSError.
    """
    if (size := files.size(path)) != shape.file_bytes:
        raise DamagedIndexError(f"{path}: {size} bytes, others have {shape.file_bytes}")
    fd = files.open(path, write=False)
    try:
        head = files.read(fd, INDEX_HEADER_FIELDS.size, 0)
        count = max(1, min(decode_header(head).count, shape.entries))
        slots, sums, number, position = bytearray(shape.slots * SLOT_BYTES), EntrySums(), 1, 0
        while number < count:
            if not goes_on():
                return None
            wanted = min(count, number - number % ENTRIES_AT_ONCE + ENTRIES_AT_ONCE) - number
            at = shape.entries_at + number * ENTRY.size
            data = files.read(fd, wanted * ENTRY.size, at).ljust(wanted * ENTRY.size, b"\0")
            summed = known.sound(data, number) if known is not None else wanted
            sound, position, _ = loops().link_entries(data, number, log_end, position, slots)
            if sound < wanted:
                raise DamagedIndexError(
                    f"{path}: entry {number + sound} of {count - 1} does not agree with those"
                    " before it"
                )
            if summed < wanted:
                raise DamagedIndexError(
                    f"{path}: entries from {number + summed} on do not have their check sum"
                )
            sums.add(data)
            number += sound
        _hold_slots(files, fd, path, slots)
    finally:
        files.close(fd)
    found = IndexSums(count, crc32(head), sums_of_slots(slots), sums.all())
    if known is not None and known.count in (count, shape.entries) and known != found:
        raise DamagedIndexError(f"{path}: its head does not have its check sum, or a sum is wrong")
    return found


def _hold_slots(files: Files, fd: int, path: Path, slots: bytearray) -> None:
    """Compare the slots of a file with those that its entries make."""
    for at in range(0, len(slots), 1 << 20):
        size = min(1 << 20, len(slots) - at)
        if files.read(fd, size, INDEX_HEADER_FIELDS.size + at) != slots[at : at + size]:
            raise DamagedIndexError(f"{path}: slots do not lead to the newest entries")


def sum_full_file(
    files: Files, path: Path, shape: IndexShape, log_end: int, goes_on: Callable[[], bool]
) -> None:
    """Make the check sums of a full file that has none, of RocketMQ's say, if it is sound."""
    known = sums_or_none(files, path, shape)
    if known is not None and known.count == shape.entries:
        return
    try:
        sums = look_through(files, path, shape, log_end, known, goes_on)
        if sums is not None and sums.count == shape.entries:
            write_sums(files, path, shape, sums)
    except FileNotFoundError:  # retention was quicker
        return
    except (DamagedIndexError, OSError) as error:
        log.warning("index_file_has_no_sums reason=%r", str(error))


def with_sound_head(files: Files, file: IndexFile, shape: IndexShape) -> IndexFile:
    """Return a full file with the positions of its entries, where its head has a wrong bit.

    Retention goes by them; look-ups refuse such a file.
    """
    sums = sums_or_none(files, file.path, shape)
    if sums is None or sums.count < shape.entries or sums.head == crc32(encode_header(file.header)):
        return file
    log.error("index_head_damaged file=%s", file.path)
    ends: list[int] = []
    fd = files.open(file.path, write=False)
    try:
        for number in (1, shape.entries - 1):
            data = files.read(fd, ENTRY.size, shape.entries_at + number * ENTRY.size)
            ends.append(ENTRY.unpack(data.ljust(ENTRY.size, b"\0"))[1])
    finally:
        files.close(fd)
    first, last = ends
    return IndexFile(file.path, IndexHeader(0, 1 << 62, first, last, 0, shape.entries))
