"""Reads that the ConsumeQueues lead: what their entries tell, and the records that these point at.

Where entries tell all that is asked for, nothing looks at the log. Else records are read in its
own order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.spark.at_rest.gathering import gathered
from aerobee.spark.at_rest.log_files import list_segments
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles, firsts
from aerobee.spark.at_rest.queue_ranges import queue_dir, report_lost
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.planning.queue_pieces import QUEUES_PER_WINDOW, EntryPiece
from aerobee.spark.records.damage import STRICT, DamagePolicy
from aerobee.spark.records.decode import Decoder, repeated
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints, Mask
from aerobee.spark.records.selection import Limits, Selection, queues_suffice
from aerobee.spark.records.unwrapping import unwrapped

SLICE_ENTRIES = 1 << 16  # of one queue at a time
MERGED_ENTRIES = 8192  # likewise, where several are merged
OF_RECORDS = frozenset({"record_bytes", "tags_code"})  # entries of a batch tell its record's
HASH_MIN = -(1 << 31)  # below it no hash, but where the consumequeue_ext has more (ConsumeQueueExt)


def entry_chunks(
    piece: EntryPiece, selection: Selection, decoder: Decoder, damage: DamagePolicy
) -> Iterator[Records | pa.RecordBatch]:
    """The wanted messages of a piece, as batches of what the ConsumeQueues tell, or as records."""
    names = decoder.schema.names
    if not queues_suffice(names, selection, verify_crc=decoder.verifies):
        yield from entry_records(piece, selection, damage)
        return
    if OF_RECORDS.intersection(names) and any(map(piece.is_batched, piece.ranges)):
        segments = tuple(list_segments(piece.log_dir))
        yield from entry_records(replace(piece, segments=segments), selection, damage)
        return
    for each in piece.ranges:
        for part in _queue_slices(piece, each, selection, damage):
            if part.hashed or "tags_code" not in names:
                yield _queue_batch(part, decoder.schema)
            else:
                entries = [(part.positions, part.sizes)]
                yield from unwrapped(gathered(list_segments(piece.log_dir), entries, damage))


def entry_records(
    piece: EntryPiece, selection: Selection, damage: DamagePolicy = STRICT
) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for.

    Raises DataLost where files are gone, and CorruptRecord, if `damage` does, where an entry
    points at something else.
    """
    found = gathered(piece.segments, _in_order(piece, selection, damage), damage)
    yield from selection.among(unwrapped(found, piece.ranges))


def _in_order(
    piece: EntryPiece, selection: Selection, damage: DamagePolicy
) -> Iterator[tuple[Ints, Ints]]:
    """The entries' positions and sizes, some at a time, so that the log is read forwards.

    Queues are merged as far as all of them have been read; of very many, one comes after the
    other. What is left of a queue then, if little, is read on at once: queues that end about
    together would else make as many small chunks, each of which costs like one of thousands.
    """
    readers = [
        _queue_slices(piece, each, selection, damage, MERGED_ENTRIES, records=True)
        for each in piece.ranges
    ]
    if len(readers) > QUEUES_PER_WINDOW:
        yield from ((part.positions, part.sizes) for reader in readers for part in reader)
        return
    waiting: list[QueueSlice | None] = [next(reader, None) for reader in readers]
    ended: set[int] = set()
    while any(waiting):
        # a damaged queue's entries may go back; as far as they have come, they never do
        reached = {
            number: np.maximum.accumulate(part.positions)
            for number, part in enumerate(waiting)
            if part is not None
        }
        lasts = {number: int(farthest[-1]) for number, farthest in reached.items()}
        # what has ended holds nobody up: it is complete already
        limit = min(
            (lasts[each] for each in lasts if each not in ended), default=max(lasts.values())
        )
        taken = []
        for number, farthest in reached.items():
            part = waiting[number]
            assert part is not None
            cut = int(np.searchsorted(farthest, limit, "right"))
            taken.append(part.only(slice(cut)))
            rest = part.only(slice(cut, None))
            if len(rest.offsets) <= MERGED_ENTRIES // 2 and number not in ended:
                more = next(readers[number], None)
                if more is None:
                    ended.add(number)
                else:
                    rest = rest.followed_by(more)
            waiting[number] = rest if len(rest.offsets) else None
        positions = np.concatenate([part.positions for part in taken])
        order = np.argsort(positions, kind="stable")
        yield positions[order], np.concatenate([part.sizes for part in taken])[order]


@dataclass(frozen=True, slots=True)
class QueueSlice:
    """Some entries of one queue; `offsets` are their numbers."""

    key: BrokerQueue
    offsets: Ints
    positions: Ints
    sizes: Ints
    tag_hashes: Ints

    @property
    def hashed(self) -> bool:
        """Whether the entries tell the hashes of all tags."""
        return not len(self.tag_hashes) or int(self.tag_hashes.min()) >= HASH_MIN

    def only(self, rows: Mask | slice) -> QueueSlice:
        """The given ones among the entries."""
        return QueueSlice(
            self.key,
            self.offsets[rows],
            self.positions[rows],
            self.sizes[rows],
            self.tag_hashes[rows],
        )

    def followed_by(self, other: QueueSlice) -> QueueSlice:
        """These entries, then others of the same queue."""
        return QueueSlice(
            self.key,
            np.concatenate([self.offsets, other.offsets]),
            np.concatenate([self.positions, other.positions]),
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.tag_hashes, other.tag_hashes]),
        )


def _queue_slices(
    piece: EntryPiece,
    wanted: QueueRange,
    selection: Selection,
    damage: DamagePolicy,
    count: int = SLICE_ENTRIES,
    *,
    records: bool = False,
) -> Iterator[QueueSlice]:
    """The wanted entries of one of a piece's queues, up to `count` at a time. Raises DataLost.

    With `records`, of those that lead to the same record the first.
    """
    key, fail = wanted.key, damage.fail_on_data_loss
    if not selection.wants_topic(key.topic) or not selection.queue_ids.has(key.queue_id):
        return
    batched, before = piece.is_batched(wanted), -1
    with ConsumeQueueFiles(queue_dir(piece.store, key)) as entries:
        offsets = selection.queue_offsets.within(Limits(wanted.start, wanted.end))
        low, high = entries.bounds(piece.log_start, piece.log_end)
        start, end = max(low, offsets.low or 0), min(high, offsets.high or high)
        # what went away after the query was planned, with retention or with the topic
        first = entries.first if entries.end > entries.first else wanted.end
        gone = [
            QueueRange(key, wanted.start, min(first, wanted.end)),
            QueueRange(key, max(entries.end, first), wanted.end),
        ]
        lost = [each for each in gone if each.start < each.end]
        limit = None  # behind it the queue is another one than was planned
        if lost or start >= end:
            limit = piece.planned.lost(piece.store, key, fail=fail)
        report_lost(lost, fail=fail)
        while start < end:
            part = entries.read(start, min(end, start + count))
            if limit is None:
                limit = piece.planned.lost(piece.store, key, fail=fail)
            if not len(part):
                report_lost([QueueRange(key, start, end)], fail=fail)
                return
            found = QueueSlice(
                key,
                np.arange(start, start + len(part), dtype=np.int64),
                part["position"].astype(np.int64),
                part["size"].astype(np.int64),
                part["tags_code"].astype(np.int64),
            )
            start += len(part)
            report_lost(_blank_ranges(found), fail=fail)
            kept = found.only(_wanted(found, selection, batched=batched))
            if records and batched and len(kept.offsets):
                last = int(kept.positions[-1])
                kept = kept.only(firsts(kept.positions, before))
                before = last
            if limit is not None:
                kept = kept.only(kept.positions <= limit)
            if len(kept.offsets):
                yield kept


def _blank_ranges(part: QueueSlice) -> list[QueueRange]:
    """The messages that a broker could not recover: it has put blank entries in their place."""
    blank = part.offsets[part.sizes == BLANK_SIZE]
    if not len(blank):
        return []
    runs = np.split(blank, np.flatnonzero(np.diff(blank) > 1) + 1)
    return [QueueRange(part.key, int(run[0]), int(run[-1]) + 1) for run in runs]


def _queue_batch(part: QueueSlice, schema: pa.Schema) -> pa.RecordBatch:
    """A slice as a RecordBatch of columns that the ConsumeQueues tell."""
    arrays = [_COLUMNS[name](part) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wanted(found: QueueSlice, selection: Selection, *, batched: bool) -> Mask:
    keep: Mask = (found.sizes > 0) & (found.sizes != BLANK_SIZE)
    keep &= selection.positions.mask(found.positions)
    keep &= selection.queue_offsets.mask(found.offsets)
    told = not batched and found.key.topic != SCHEDULE_TOPIC  # the hash of the message's own tags
    if selection.tag_hashes is not None and told:
        tagged = Limits(values=selection.tag_hashes).mask(found.tag_hashes)
        keep &= tagged | (found.tag_hashes < HASH_MIN)
    return keep


_COLUMNS: dict[str, Callable[[QueueSlice], pa.Array]] = {
    "topic": lambda part: repeated(part.key.topic, len(part.offsets)),
    "broker": lambda part: repeated(part.key.broker, len(part.offsets)),
    "queue_id": lambda part: pa.array(np.full(len(part.offsets), part.key.queue_id, np.int32)),
    "queue_offset": lambda part: pa.array(part.offsets),
    "commit_log_offset": lambda part: pa.array(part.positions),
    "record_bytes": lambda part: pa.array(part.sizes.astype(np.int32)),
    "tags_code": lambda part: pa.array(part.tag_hashes),
}
