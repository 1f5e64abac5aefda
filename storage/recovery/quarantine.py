"""Damage once it is found: what was lost is named, its bytes are set aside, and it is told."""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from aerobee.remoting.message.layout import BLANK_MAGIC, BLANK_SIZE
from aerobee.remoting.message.record import BLANK
from aerobee.storage.log.aside import COPY_BYTES_MAX, TORN, UNREADABLE, Aside
from aerobee.storage.log.damage import Damage, DamageTable, Lost, write_damage
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.recovery.dispatch import Hole

log = logging.getLogger(__name__)

SPANS_TOLD: Final = 100  # with a line each
ENTRIES_AT_ONCE: Final = 65_536


def describe(table: DamageTable, queues: ConsumeQueues, holes: Iterable[Hole]) -> None:
    """Say of each span whose offsets it took: by the entries that point into it, and by holes."""
    taken: dict[int, list[Lost]] = {}
    known = list(table)
    for hole in holes:
        span = next((s for s in known if s.begin < hole.end and s.end > hole.begin), None)
        name = (hole.queue.topic, hole.queue.queue_id, hole.first, hole.last)
        if span is not None:
            taken.setdefault(span.begin, []).append(name)
        else:
            log.error("queue_offsets_lost queue=%s-%d from=%d to=%d", *name)
    named = _named(known, queues) if len(known) > SPANS_TOLD else None
    spans = []
    for span in known:
        lost = dict.fromkeys(span.queues + tuple(taken.get(span.begin, ())))
        if not span.queues and named is not None:
            lost.update(dict.fromkeys(named.get(span.begin, ())))
        elif not span.queues:
            for queue in queues:
                low, high = queue.first_from(span.begin), queue.first_from(span.end)
                high = min(high, queue.max_offset)
                if low < high:
                    lost[queue.topic, queue.queue_id, low, high - 1] = None
        spans.append(replace(span, queues=tuple(sorted(lost))))
    table.replace(spans)


def _named(spans: list[Damage], queues: ConsumeQueues) -> dict[int, list[Lost]]:
    """Return by the begin of many spans whose entries point into them: one look at each entry."""
    import numpy as np  # costs 100 ms

    from aerobee.storage.queues.bulk_check import read_entries

    begins = np.array([span.begin for span in spans], np.int64)
    ends = np.array([span.end for span in spans], np.int64)
    found: dict[int, list[Lost]] = {}
    for queue in queues:
        first = max(queue.min_offset, queue.first_from(spans[0].begin))
        reach: dict[int, tuple[int, int]] = {}
        for low in range(first, queue.max_offset, ENTRIES_AT_ONCE):
            rows = read_entries(queue, low, min(low + ENTRIES_AT_ONCE, queue.max_offset))
            place = rows["position"].astype(np.int64)
            index = np.searchsorted(begins, place, "right") - 1
            inside = (index >= 0) & (place < ends[index]) & (rows["size"] != BLANK_SIZE)
            for at in np.flatnonzero(inside).tolist():
                span = int(index[at])
                reach[span] = (reach[span][0] if span in reach else low + at, low + at)
        for span, (begin, last) in reach.items():
            name = (queue.topic, queue.queue_id, begin, last)
            found.setdefault(spans[span].begin, []).append(name)
    return found


def tell(table: DamageTable) -> None:
    """Log an error for each span."""
    for span in list(table)[:SPANS_TOLD]:
        lost = ", ".join(f"{t}-{q} {a} to {b}" for t, q, a, b in span.queues[:20])
        log.error(
            "log_damaged begin=%d end=%d reason=%r lost_offsets=%r set_aside=%s advice='messages"
            " before and behind are served; put the file back from a copy if there is one, else run"
            " python -m aerobee.storage.repair once the broker is stopped'",
            span.begin, span.end, span.reason, lost + (", ..." if span.queues[20:] else ""),
            span.set_aside,
        )  # fmt: skip
    if len(table) > SPANS_TOLD:
        log.error("log_damaged more=%d", len(table) - SPANS_TOLD)


class Quarantine:
    """The changes on the disk that damage asks for, in an order in which each may be the last."""

    def __init__(self, parts: StoreParts) -> None:
        self._files = parts.files
        self._settings = parts.settings
        self._segments = parts.segments
        self._table = parts.damage
        self._aside = Aside(parts.files, parts.settings)
        self._noted = False

    def keep(self, position: int, *, torn: bool) -> bool:
        """Copy what cannot be read, note it, and clear the way behind the end of the log.

        `torn` says whether what lies behind `position` may have been acknowledged; then it is
        copied before it is written over. Returns whether there was anything. Does nothing twice.
        Errors: OSError, to be tried again.
        """
        segments = self._segments
        if not self._noted:
            self._copy_spans()
            write_damage(self._files, self._settings.root, self._table)
            self._noted = True
            tell(self._table)
        segments.restore_sizes(position, self._aside.keep_rest)
        self._close_files(position)
        segments.drop_after(position, self._aside.keep_behind)
        tail, path = segments.find(position), None
        if torn and tail is not None:
            end = min(tail.end, position + COPY_BYTES_MAX)
            path = self._aside.keep_bytes([tail], position, end, TORN)
            if path is not None:
                log.warning("log_tail_set_aside position=%d end=%d kept=%s", position, end, path)
            if tail.next_data(end) < tail.end:
                log.error("log_tail_not_kept position=%d reason='it is too long'", end)
        return path is not None

    def _close_files(self, position: int) -> None:
        """Write the blanks that closed files have lost: RocketMQ takes that for the log's end."""
        for stop in sorted(self._table.lost_blanks):
            segment = self._segments.find(stop)
            if segment is not None and BLANK.size <= segment.end - stop and segment.end <= position:
                segment.write(stop, BLANK.pack(segment.end - stop, BLANK_MAGIC))
                segment.sync()
                log.warning("log_file_closed file=%s position=%d", segment.path, stop)
        self._table.lost_blanks.clear()

    def _copy_spans(self) -> None:
        """Copy the bytes of each span; where there is no room they stay where they are."""
        spans = []
        for span in self._table:
            if span.set_aside is None and span.end - span.begin <= COPY_BYTES_MAX:
                try:
                    path = self._aside.copy_bytes(
                        self._segments.items, span.begin, span.end, UNREADABLE
                    )
                except OSError as error:
                    log.warning("log_damage_not_copied begin=%d error=%s", span.begin, error)
                    path = None
                span = replace(span, set_aside=str(path) if path is not None else None)
            spans.append(span)
        self._table.replace(spans)
        self._aside.sync_names()


def forget_damage_before(parts: StoreParts, position: int) -> None:
    """Drop the damage that lies before the log's begin."""
    if parts.damage.drop_before(position):
        try:
            write_damage(parts.files, parts.settings.root, parts.damage)
        except OSError as error:  # the next start drops it again
            log.warning("log_damage_not_noted error=%s", error)
