"""What recovery makes of sectors that the disk does not give, which it has read as zeros."""

from msgspec.structs import replace

from aerobee.storage.log.damage import Damage, DamageTable
from aerobee.storage.log.segments import Segments
from aerobee.storage.recovery.known_damage import NOT_GIVEN


def pass_bad_sectors(segments: Segments, table: DamageTable, position: int) -> int:
    """Return where the log goes on that seems to end at `position`; name the reason of spans.

    Where nothing sound follows a sector that cannot be read, nobody knows what it had: it is not
    written over, the log goes on behind it. One in space that nobody has used yet is.
    """
    if not len(segments.bad):
        return position
    pages = [page for segment in segments.items for page in segment.bad_pages()]
    end = position
    for begin, behind in pages:
        segment = segments.find(end)
        if behind <= end or segment is None:
            continue
        between = segment.read(end, begin - end) if begin > end else b""
        if begin >= segment.end or (between and not between.strip(b"\0")):
            break
        end = min(behind, segment.end)
    if end > position:
        table.add(Damage(position, end, NOT_GIVEN))
    touched = [
        replace(span, reason=NOT_GIVEN)
        if any(begin < span.end and span.begin < behind for begin, behind in pages)
        else span
        for span in table
    ]
    table.replace(touched)
    return end
