"""What an export leaves out of a damaged log, where it is told to go on, and how it is named."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import queue_dir
from aerobee.spark.lake.manifest import Gap
from aerobee.spark.offsets import QueueRange
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.damage import DROPMALFORMED, DamagePolicy
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints, Mask

log = logging.getLogger(__name__)

BLANK = "the broker's log was damaged there, and its recovery has stepped over it"
DAMAGE_HINT = "--no-fail-on-data-loss (fail_on_data_loss=False) leaves it out, and notes it"


class LeftOut(DamagePolicy):
    """The damage that a task has met, all of it passed over."""

    def __init__(self) -> None:
        super().__init__(DROPMALFORMED, fail_on_data_loss=False)
        self._reasons: dict[int, str] = {}

    def _pass_over(self, position: int, reason: str) -> None:
        log.warning("%s; left out", reason)
        self._reasons.setdefault(position, reason)

    def note_strangers(self, records: Records, rows: Ints) -> None:
        """Records that are not what the queue entries that point at them promise."""
        for row in rows.tolist():
            position = records.position(row)
            self.note(
                position,
                f"the record at log position {position} says another queue or offset than the"
                " queue's entry that points at it",
            )

    def believable(self, chunks: Iterator[Records], piece: EntryPiece) -> Iterator[Records]:
        """The records without those that say another place than the entry that points at them."""
        positions, offsets, queue_ids = _entries(piece)
        for records in chunks:
            own = records.field("position", np.int64)
            said = records.field("queue_offset", np.int64)
            at = np.minimum(np.searchsorted(positions, own), len(positions) - 1)
            step = np.clip(said - offsets[at], 0, len(positions) - 1 - at)  # of a batch's messages
            at = np.where(positions[at + step] == own, at + step, at)
            good = offsets[at] == said
            good &= queue_ids[at] == records.field("queue_id", np.int64)
            if not good.all():
                self.note_strangers(records, np.flatnonzero(~good))
                records = records.only(np.flatnonzero(good))
            if len(records):
                yield records

    def gaps(self, piece: EntryPiece | Piece, broker: str, *, complete: bool = False) -> list[Gap]:
        """What was left out of a piece: offsets of its queues, or places of a log without.

        `complete` says that all that was planned has been found.
        """
        if not self._reasons and complete:
            return []
        if isinstance(piece, Piece):
            return [
                Gap.of_log(broker, position, _next_record(piece, position), reason)
                for position, reason in sorted(self._reasons.items())
            ]
        return list(self._queue_gaps(piece))

    def _queue_gaps(self, piece: EntryPiece) -> Iterator[Gap]:
        wanted = np.array(sorted(self._reasons), np.int64)
        for each in piece.ranges:
            there, blank = _places(piece, each)
            yield from (Gap(run, BLANK) for run in _runs(each, blank))
            for run in _runs(each, np.isin(there, wanted) & ~blank):
                yield Gap(run, self._reasons[int(there[run.start - each.start])])


def _runs(within: QueueRange, rows: Mask) -> Iterator[QueueRange]:
    """The offsets of the rows of a range that are marked, those in a row together."""
    found = np.flatnonzero(rows)
    for run in np.split(found, np.flatnonzero(np.diff(found) > 1) + 1):
        if len(run):
            yield QueueRange(
                within.key, within.start + int(run[0]), within.start + int(run[-1]) + 1
            )


def _places(piece: EntryPiece, wanted: QueueRange) -> tuple[Ints, Mask]:
    """Where the entries of a range lead to, and which of them are blank."""
    with ConsumeQueueFiles(queue_dir(piece.store, wanted.key)) as entries:
        found = entries.read(wanted.start, wanted.end)
    return found["position"].astype(np.int64), found["size"] == BLANK_SIZE


def _entries(piece: EntryPiece) -> tuple[Ints, Ints, Ints]:
    """Where a piece's queues point at, in the log's order; these entries' offsets and queues."""
    positions, offsets, queue_ids = [], [], []
    for each in piece.ranges:
        there, blank = _places(piece, each)
        numbers = each.start + np.flatnonzero(~blank)
        positions.append(there[~blank])
        offsets.append(numbers)
        queue_ids.append(np.full(len(numbers), each.key.queue_id, np.int64))
    joined = np.concatenate(positions)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(offsets)[order], np.concatenate(queue_ids)[order]


def _next_record(piece: Piece, position: int) -> int:
    """Where a piece of the log goes on behind damage."""
    with OpenSegment(piece.segment) as file:
        return file.find_record(position + 1, piece.end)
