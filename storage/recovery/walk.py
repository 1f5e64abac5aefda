"""Walks a log over its damaged spans: every record that is sound, and the spans between them."""

import re
from collections.abc import Iterator
from typing import Final

from aerobee.remoting.message.layout import RECORD_BYTES_MIN
from aerobee.storage.log.damage import Damage, DamageTable
from aerobee.storage.log.scan import LogScan, Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.recovery.next_record import NextRecord, sound_record

SECTOR_BYTES: Final = 512  # disks lose no less
_ZEROS: Final = re.compile(rb"\0+")


def is_torn(record: Scanned) -> bool:
    """Whether bytes are missing that no checksum covers: the topic's, or of the properties."""
    if 0 in record.prefix[2:]:
        return True
    properties = record.properties
    return has_hole(properties, record.position + record.size - len(properties))


def has_hole(properties: bytes, begin: int) -> bool:
    """Whether properties, which lie at a position, have zeros where something was never written.

    Zeros up to the record's end, or from one edge of a sector to the next, are no property's value
    but by a sender's intent, who then harms himself.
    """
    if 0 not in properties:
        return False
    for zeros in _ZEROS.finditer(properties):
        aligned = (begin + zeros.start()) % SECTOR_BYTES == 0
        if zeros.end() == len(properties) or (
            aligned and zeros.end() - zeros.start() >= SECTOR_BYTES
        ):
            return True
    return False


def records_over(segments: Segments, begin: int, table: DamageTable | None) -> Iterator[Scanned]:
    """Yield the records of a recovered log from a position on; bodies are not checked again."""
    position: int | None = begin
    while position is not None:
        scan = LogScan(segments, position, check_crc=False)
        yield from scan
        span = table.at(scan.end) if table is not None else None
        position = span.end if span is not None else None


class LogWalk:
    """Iterate once; afterwards `end` is where the log ends and `reason` says why there.

    The log ends where nothing sound follows, but not before `floor`, up to which a proof says that
    there were records. Spans that are met are added to the table. From `torn_at` on there is the
    rest of a commit that was cut short: an unsound record there ends the log.
    """

    def __init__(
        self,
        search: NextRecord,
        begin: int,
        table: DamageTable,
        floor: int,
        torn_at: int | None = None,
    ) -> None:
        self._segments = search.segments
        self._table = table
        self._search = search
        self._floor = floor
        self._torn_at = torn_at
        self._last: Scanned | None = None
        self.end = begin
        self.reason = "the files end"

    def __iter__(self) -> Iterator[Scanned]:
        position: int | None = self.end
        while position is not None:
            scan = LogScan(self._segments, position)
            stop = None
            for record in scan:
                if is_torn(record):
                    stop = record.position
                    break
                self._last = record
                self.end = scan.end
                if len(self._table):
                    self._table.take_back(record.position, record.position + record.size)
                yield record
            if stop is None:
                self.end, self.reason = scan.end, scan.reason
            else:
                self.end, self.reason = stop, "zeros in its properties"
            position = self._over(self.end, self.reason)

    def _over(self, stop: int, reason: str) -> int | None:
        """Return where the log goes on behind `stop`, None at its end."""
        known = self._table.at(stop)
        if known is not None and sound_record(self._segments, known.end) is not None:
            return known.end
        newest_ms = self._last.store_timestamp if self._last is not None else None
        found = None if self._is_torn(stop) else self._search.find(stop, newest_ms)
        if found is not None and self._is_torn(found.position - 1):
            found = None
        end = max(self._floor, known.end if known is not None else 0)
        if found is not None:
            end = found.position
        if end <= stop:
            return None
        if self._lost_blank(stop, end):
            self._table.lost_blanks.add(stop)
        else:
            self._table.add(Damage(stop, end, reason))
        return end

    def _is_torn(self, position: int) -> bool:
        return self._torn_at is not None and position >= self._torn_at

    def _lost_blank(self, stop: int, end: int) -> bool:
        """Whether only the blank that closes a file is missing: no record had room there."""
        segment = self._segments.find(stop)
        return segment is not None and end == segment.end and end - stop < RECORD_BYTES_MIN
