"""The damage of a log that is known before any record is read."""

import logging
from collections.abc import Iterable
from typing import Final

from aerobee.remoting.message.record import BLANK
from aerobee.storage.log.damage import Damage, DamageTable
from aerobee.storage.log.file_names import LOST_FILES_MAX, begins_with_its_own
from aerobee.storage.log.scan import LogScan
from aerobee.storage.log.segments import Segments
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.recovery.next_record import NextRecord
from aerobee.storage.recovery.walk import LogWalk

log = logging.getLogger(__name__)

NOT_GIVEN: Final = "the disk does not give it"
"""The reason of a span with sectors that cannot be read, which may be a whim of the disk."""

FILE_MISSING: Final = "the log file is missing"
"""The reason of a span that is a whole file, of which a copy may be put back."""

MISPLACED: Final = "queue offset"
"""How the reason begins for a record that is whole, but names an offset that cannot be its own."""


def take_known_damage(
    search: NextRecord, table: DamageTable, noted: Iterable[Damage], progress: Progress | None
) -> int:
    """Fill the table; return the position before which the log does not end.

    Known are the spans that an earlier start has noted, unless somebody has put back what they had
    lost, and what files have taken that are missing or too short, those before `progress` too.
    """
    segments = search.segments
    if not segments.items:
        return 0
    floor = segments.begin
    far = LOST_FILES_MAX * segments.segment_bytes
    if progress is not None and progress.position - segments.end > far:
        log.error(
            "progress_not_believed position=%d log_end=%d reason='it is of another store, or the"
            " log has lost its files'", progress.position, segments.end,
        )  # fmt: skip
    elif progress is not None and floor <= progress.position:
        floor = progress.position
        while segments.end < floor:
            segments.add_lost()
    for span in noted:
        if not segments.begin < span.end <= segments.end:
            continue
        if _is_put_back(segments, span):
            _look_through(search, span.begin, span.end, table)
        else:
            table.add(span)
    for segment in segments.lost:
        last = segment is segments.items[-1]
        if segment.stored == 0:
            end = floor if last else segment.end
            if end > segment.base:
                table.add(Damage(segment.base, end, FILE_MISSING))
        elif not last:
            _look_through(search, segment.base, segment.end, table)
    passed = False  # whether a later file has records of its own
    for segment in reversed(segments.items):
        own = segment.stored and begins_with_its_own(segment)
        if passed and not own and segment not in segments.lost and not table.at(segment.base):
            _look_through(search, segment.base, segment.end, table)
        passed = passed or bool(own)
    return floor


def _look_through(search: NextRecord, begin: int, end: int, table: DamageTable) -> None:
    """Find what is damaged of a stretch of the log."""
    for record in LogWalk(search, begin, table, end):
        if record.position >= end:
            break


def _is_put_back(segments: Segments, span: Damage) -> bool:
    """Whether a span begins with a record now: from a copy, or since the disk gives it again."""
    if span.reason.startswith(MISPLACED):
        return False
    segment = segments.find(span.begin)
    if span.reason == FILE_MISSING and segment is not None:
        magic = segment.read(span.begin, BLANK.size)[4:]
        return bool(magic.strip(b"\0")) and not segment.is_closed_at(span.begin)
    first = next(iter(LogScan(segments, span.begin)), None)
    return first is not None and first.position == span.begin
