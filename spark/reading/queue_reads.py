"""The messages of queue ranges as the ConsumeQueues tell them, without a look at the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.spark.at_rest.queue_entries import QueueEntries
from aerobee.spark.at_rest.queue_ranges import queue_dir, report_lost
from aerobee.spark.offsets import QueueKey, QueueRange
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.damage import Damage
from aerobee.spark.records.decode import repeated
from aerobee.spark.records.layout import Ints, Mask
from aerobee.spark.records.selection import Limits, Selection

ENTRIES_READ = 1 << 16  # of one queue at a time
HASH_MIN = -(1 << 31)  # below it no hash, but where the consumequeue_ext has more (ConsumeQueueExt)


@dataclass(frozen=True, slots=True)
class QueueSlice:
    """Some entries of one queue; `offsets` are their numbers."""

    key: QueueKey
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


def queue_slices(
    piece: EntryPiece,
    wanted: QueueRange,
    selection: Selection,
    damage: Damage,
    count: int = ENTRIES_READ,
) -> Iterator[QueueSlice]:
    """The wanted entries of one of a piece's queues, up to `count` at a time. Raises DataLost."""
    key, fail = wanted.key, damage.fail_on_data_loss
    if not selection.wants_topic(key.topic) or not selection.queue_ids.has(key.queue_id):
        return
    with QueueEntries(queue_dir(piece.store, key)) as entries:
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
        limit = None
        if lost or start >= end:
            limit = _replaced_behind(piece, key, fail=fail)
        report_lost(lost, fail=fail)
        while start < end:
            part = entries.read(start, min(end, start + count))
            if limit is None:
                limit = _replaced_behind(piece, key, fail=fail)
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
            report_lost(blank_ranges(found), fail=fail)
            kept = found.only(_wanted(found, selection))
            if limit is not None:
                kept = kept.only(kept.positions <= limit)
            if len(kept.offsets):
                yield kept


def _replaced_behind(piece: EntryPiece, key: QueueKey, *, fail: bool) -> int | None:
    """Behind which log position a queue is another one than was planned. Raises DataLost."""
    return None if piece.planned is None else piece.planned.lost(piece.store, key, fail=fail)


def blank_ranges(part: QueueSlice) -> list[QueueRange]:
    """The messages that a broker could not recover: it has put blank entries in their place."""
    blank = part.offsets[part.sizes == BLANK_SIZE]
    if not len(blank):
        return []
    runs = np.split(blank, np.flatnonzero(np.diff(blank) > 1) + 1)
    return [QueueRange(part.key, int(run[0]), int(run[-1]) + 1) for run in runs]


def queue_batch(part: QueueSlice, schema: pa.Schema) -> pa.RecordBatch:
    """A slice as a RecordBatch of columns that the ConsumeQueues tell."""
    arrays = [_COLUMNS[name](part) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wanted(found: QueueSlice, selection: Selection) -> Mask:
    keep: Mask = (found.sizes > 0) & (found.sizes != BLANK_SIZE)
    keep &= selection.positions.mask(found.positions)
    keep &= selection.queue_offsets.mask(found.offsets)
    if selection.tag_hashes is not None and found.key.topic != SCHEDULE_TOPIC:
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
