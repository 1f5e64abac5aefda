"""How a task reads its piece: along the log where that is worthwhile, else by the queues' entries.

The queues say what there is to export; who goes by their entries reads these, sorts what they
point at, and looks at each record to see that it is the right one. Where the queues want most of a
stretch of the log anyway, its records say as much themselves. What is met along the log counts only
if it is, of each queue, each offset once and in order; else nobody relies on it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.errors import DataLost
from aerobee.spark.exports.batches import Batch, partitioned, unpacked_batch
from aerobee.spark.exports.damage import LeftOut
from aerobee.spark.lake.formats import EXPORTED
from aerobee.spark.lake.manifest import Gap
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import (
    QUEUES_PER_WINDOW,
    EntryPiece,
    estimated_bytes,
    log_span,
)
from aerobee.spark.reading.pieces import piece_records
from aerobee.spark.records.cells import coded
from aerobee.spark.records.columns import PROPERTIES, arrow_schema
from aerobee.spark.records.damage import STRICT
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import EVERYTHING, Selection
from aerobee.spark.records.tally import Found, QueueTally

log = logging.getLogger(__name__)

WANTED_LEAST = 0.5  # of the bytes between the first and the last message
QUEUES_MAX = 2048  # of one walk along the log: each task looks at all of them first, at 0.1 ms each
CODED = ("broker", "born_host", "store_host")  # which repeat, and need not be compared to know


@dataclass(frozen=True, slots=True)
class Source:
    """What one task reads, and as what columns; `selection` is for stores without queues."""

    store: Store
    piece: EntryPiece | Piece
    selection: Selection
    properties: str = PROPERTIES[0]
    decompress: bool = False
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True)
class QueuesMet:
    """What there was of each queue, and the damaged messages that were left out."""

    found: dict[BrokerQueue, Found] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


def readings(source: Source) -> Iterator[PieceReading]:
    """The ways to read it, the quickest first; each is for where none before can be relied on."""
    if isinstance(source.piece, EntryPiece) and source.selection.everything:
        stretch = find_stretch(source.piece)
        if stretch is not None:
            yield AlongLog(source, stretch)
    yield ByEntries(source)
    yield ByEntries(source, doubted=True)


class PieceReading(ABC):
    """One way to read a source: all of `batches`, and then what `met` says of them.

    `ordered` says whether rows come in the log's order.
    """

    def __init__(
        self, source: Source, wanted: Sequence[QueueRange] | None, *, ordered: bool
    ) -> None:
        self.source = source
        self.ordered = ordered
        self.schema = coded(arrow_schema(EXPORTED, source.properties), CODED)
        self._tally = QueueTally(source.store.label, wanted)
        self._left_out: LeftOut | None = None

    def batches(self) -> Iterator[Batch]:
        """The messages. Raises CorruptRecord, DataLost, StoreUnreadable."""
        decoder = Decoder(self.schema, broker=self.source.store.label)
        unwanted = None if self._left_out is None else self._left_out.note_strangers
        for records in self._records():
            for batch in partitioned(records, self._tally, decoder, unwanted):
                if self.source.decompress:
                    yield from unpacked_batch(batch)
                else:
                    yield batch

    @abstractmethod
    def met(self) -> QueuesMet | None:
        """What that was; None where it cannot be relied on."""

    @abstractmethod
    def _records(self) -> Iterator[Records]:
        """The records in chunks, each valid until the next is asked for."""


class AlongLog(PieceReading):
    """All records of the stretches of the log that hold the piece's messages, and others."""

    def __init__(self, source: Source, stretch: Stretch) -> None:
        super().__init__(source, stretch.ranges, ordered=True)
        self._pieces = stretch.pieces
        self._failed = False

    def batches(self) -> Iterator[Batch]:
        """The messages, up to what is no record."""
        try:
            yield from super().batches()
        except (CorruptRecord, DataLost) as error:
            log.info("%s; going by the queues' entries", error)
            self._failed = True

    def met(self) -> QueuesMet | None:
        """What that was, if it is all that the queues promise."""
        if self._failed:
            return None
        if self._tally.complete:
            return QueuesMet(self._tally.found())
        log_dir = self.source.store.log_dir
        log.info("%s: the log is not as its queues say; going by these", log_dir)
        return None

    def _records(self) -> Iterator[Records]:
        for piece in self._pieces:
            yield from piece_records(piece, EVERYTHING)


class ByEntries(PieceReading):
    """What the entries of the queues point at, or all of the log where it has none.

    With `doubted`, each record's offset is compared with its entry's.
    """

    def __init__(self, source: Source, *, doubted: bool = False) -> None:
        ranges = source.piece.ranges if isinstance(source.piece, EntryPiece) else None
        left_out = None if source.fail_on_data_loss else LeftOut()
        # a damaged record may say that it is any queue's: it is not believed where it is left out
        wanted = ranges if left_out else None
        super().__init__(source, wanted, ordered=len(ranges or ()) <= QUEUES_PER_WINDOW)
        self._left_out = left_out
        self._ranges = ranges or ()
        self._doubted = doubted

    def met(self) -> QueuesMet | None:
        """What that was, unless something was left out and offsets are not as they should be."""
        found = self._tally.found()
        if self._left_out is None:
            return QueuesMet(found)
        if self._ranges and not self._doubted and not all(each.ordered for each in found.values()):
            return None
        planned = sum(each.end - each.start for each in self._ranges)
        complete = sum(each.rows for each in found.values()) >= planned
        source = self.source
        return QueuesMet(
            found, self._left_out.gaps(source.piece, source.store.label, complete=complete)
        )

    def _records(self) -> Iterator[Records]:
        source, left_out = self.source, self._left_out
        records = piece_records(source.piece, source.selection, left_out or STRICT)
        if left_out and self._doubted and isinstance(source.piece, EntryPiece):
            return left_out.believable(records, source.piece)
        return records


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the log by files, and what of it is wanted."""

    pieces: tuple[Piece, ...]
    ranges: tuple[QueueRange, ...]


def is_worthwhile(store: Store, ranges: Sequence[QueueRange]) -> bool:
    """Whether the ranges, none of them empty, are most of what is between their ends in the log."""
    if not 0 < len(ranges) <= QUEUES_MAX:
        return False
    low, high = log_span(store, ranges)
    return estimated_bytes(store, ranges) >= WANTED_LEAST * (high - low)


def find_stretch(piece: EntryPiece) -> Stretch | None:
    """Where in the log a piece's messages are, None where too many others are between them."""
    if len(piece.ranges) > QUEUES_MAX:
        return None
    ranges = []
    low, high = NOWHERE, 0
    for each in piece.ranges:
        with ConsumeQueueFiles(queue_dir(piece.store, each.key)) as entries:
            first, end = entries.bounds(piece.log_start, piece.log_end)
            first, end = max(first, each.start), min(end, each.end)
            if first >= end:
                continue
            last = entries.read(end - 1, end)
            if not len(last):
                return None
            low = min(low, entries.position(first))
            high = max(high, int(last["position"][0]) + int(last["size"][0]))
            ranges.append(QueueRange(each.key, first, end))
    if not ranges or low < 0:
        return None
    if estimated_bytes(piece.store, ranges) < WANTED_LEAST * (high - low):
        return None
    cut = (
        Piece(segment, max(low, segment.base), min(high, segment.end)) for segment in piece.segments
    )
    return Stretch(tuple(each for each in cut if each.start < each.end), tuple(ranges))
