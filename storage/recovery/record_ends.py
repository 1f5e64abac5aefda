"""Whether a note that says how far the log was written speaks of this log: a record ends there."""

from typing import Final

from aerobee.remoting.message.layout import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, RECORD_FIELDS
from aerobee.storage.log.scan import HEAD
from aerobee.storage.log.segments import Segments
from aerobee.storage.recovery.next_record import sound_record

LOOK_BYTES: Final = 64 * 1024  # behind which the last record begins, nearly always
_MAGIC_AT: Final = RECORD_FIELDS.at("magic")
_MAGICS: Final = tuple(each.to_bytes(4, "big") for each in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC))


def ends_record(segments: Segments, position: int, record_bytes_max: int) -> bool:
    """Whether a sound record, or the blank that closes a file, ends at a position of the log.

    So does nothing, at the log's first byte. Looked for backwards, for as long as a record may be.
    """
    if position == segments.begin:
        return True
    segment = segments.find(position - 1)
    if segment is None:
        return False
    for count in (LOOK_BYTES, record_bytes_max + LOOK_BYTES):
        begin = max(segment.base, position - count)
        data = segment.read(begin, position - begin)
        for magic in _MAGICS:
            at = data.rfind(magic)
            while at >= 0:
                start = begin + at - _MAGIC_AT
                if start >= segment.base and _ends(segments, start, position):
                    return True
                at = data.rfind(magic, 0, at)
    return False


def _ends(segments: Segments, start: int, position: int) -> bool:
    segment = segments.find(start)
    if segment is None:
        return False
    if position == segment.end and segment.is_closed_at(start):
        return True
    head = segment.read(start, HEAD.size)
    if len(head) < HEAD.size or HEAD.unpack(head)[0] != position - start:
        return False
    return sound_record(segments, start) is not None
