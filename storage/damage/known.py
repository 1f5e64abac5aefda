"""The damage of a log that is known before any record is read."""

import logging
from collections.abc import Iterable
from typing import Final

from aerobee.storage.damage.log_files import LOST_FILES_MAX, begins_with_its_own
from aerobee.storage.damage.next_record import NextRecord
from aerobee.storage.damage.spans import Damage, DamageTable
from aerobee.storage.damage.walk import LogWalk
from aerobee.storage.log_scan import LogScan
from aerobee.storage.progress import Progress
from aerobee.storage.segment import Segment
from aerobee.storage.segments import Segments

log = logging.getLogger(__name__)

NOT_GIVEN: Final = "the disk does not give it"
"""The reason of a span with sectors that cannot be read, which may be a whim of the disk."""

MISPLACED: Final = "queue offset"
"""How the reason begins for a record that is whole, but names an offset that cannot be its own."""


def take_known(
    segments: Segments,
    table: DamageTable,
    search: NextRecord,
    noted: Iterable[Damage],
    progress: Progress | None,
) -> int:
    """Fill the table; return the position before which the log does not end.

    Known are the spans that an earlier start has noted, unless somebody has put back what they had
    lost, and what files have taken that are missing or too short, those before `progress` too.
    """
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
        if segments.begin < span.end <= segments.end and (rest := _rest(segments, span)):
            table.add(rest)
    for segment in segments.lost:
        last = segment is segments.items[-1]
        if segment.stored == 0:
            end = floor if last else segment.end
            if end > segment.base:
                table.add(Damage(segment.base, end, "the log file is missing"))
        elif not last:
            _look_through(segments, segment, table, search)
    passed = False  # whether a later file has records of its own
    for segment in reversed(segments.items):
        own = segment.stored and begins_with_its_own(segment)
        if passed and not own and segment not in segments.lost and not table.at(segment.base):
            _look_through(segments, segment, table, search)
        passed = passed or bool(own)
    return floor


def _look_through(
    segments: Segments, segment: Segment, table: DamageTable, search: NextRecord
) -> None:
    """Find what a file has lost with its end."""
    for record in LogWalk(segments, segment.base, table, search, segment.end):
        if record.position >= segment.end:
            break


def _rest(segments: Segments, span: Damage) -> Damage | None:
    """Return what of a span is no records still, None where records fill it.

    Of one that the disk did not give, a part may be read now; any other is one, or none.
    """
    if span.reason.startswith(MISPLACED):
        return span
    first = next(iter(LogScan(segments, span.begin)), None)
    if first is None or first.position != span.begin:
        return span
    end = span.begin
    for record in LogScan(segments, span.begin):
        if record.position >= span.end:
            return None if record.position == span.end else span
        end = record.position + record.size
    if end == span.end:
        return None
    return Damage(end, span.end, NOT_GIVEN) if span.reason == NOT_GIVEN and end < span.end else span
