"""Queue ranges of a cluster to Arrow batches: what a task does that reads over the network.

A pull's reply holds records as the log has them, so that the same decoder reads them; replies
are joined to blocks of some thousand records first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest.queue_ranges import report_lost
from aerobee.spark.lost.network_planned import EndsWatch, PlannedEnds
from aerobee.spark.network.cluster import ConnectedCluster
from aerobee.spark.network.pulls import Pulled, RangePulls
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import Options
from aerobee.spark.reading.partitions import TaskPartition
from aerobee.spark.reading.worker_heap import settle_heap
from aerobee.spark.records.damage import STRICT
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.replies import ReplyBuffer, find_records
from aerobee.spark.records.selection import Selection
from aerobee.spark.records.unwrapping import unwrapped, wrapped

BLOCK_RECORDS: Final = 8192  # as many per batch are fastest to decode
BLOCK_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class NetworkPiece:
    """What one task reads: ranges of queues, sorted, from the brokers of a cluster."""

    address: NetworkAddress
    ranges: tuple[QueueRange, ...]
    planned: PlannedEnds = field(default_factory=PlannedEnds)


@dataclass
class NetworkPartition(TaskPartition):
    """What one task reads of a cluster, as Spark hands it on."""

    piece: NetworkPiece

    def read(
        self, options: Options, schema: StructType, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """The wanted messages as batches of the schema's columns."""
        from pyspark.sql.pandas.types import to_arrow_schema

        columns = to_arrow_schema(schema, timezone="UTC")

        def decoder_of(broker: str) -> Decoder:
            return Decoder(
                columns,
                decompress=options.decompress,
                verify_crc=options.verify_crc,
                broker=broker,
            )

        fail = options.fail_on_data_loss
        yield from network_batches(self.piece, selection, decoder_of, fail_on_data_loss=fail)
        settle_heap()


class BrokerRecords(NamedTuple):
    """Records of one broker, valid until the next ones are asked for."""

    broker: str
    records: Records


def network_batches(
    piece: NetworkPiece,
    selection: Selection,
    decoder_of: Callable[[str], Decoder],
    *,
    fail_on_data_loss: bool = True,
) -> Generator[pa.RecordBatch, None, None]:
    """The wanted messages of a piece, in the order of its ranges and their offsets.

    `decoder_of` gives the decoder for a broker's name. Raises DataLost (or warns) for messages
    that are gone, ClusterUnreachable, CorruptRecord.
    """
    found = network_records(piece, selection, fail_on_data_loss=fail_on_data_loss)
    decoders: dict[str, Decoder] = {}
    for broker, records in found:
        if broker not in decoders:
            decoders[broker] = decoder_of(broker)
        yield from decoders[broker].rows([records], STRICT)


def network_records(
    piece: NetworkPiece, selection: Selection, *, fail_on_data_loss: bool = True
) -> Generator[BrokerRecords, None, None]:
    """The same before they are decoded."""
    buffer = ReplyBuffer()
    with ConnectedCluster(piece.address) as cluster:
        pulls = RangePulls(cluster, piece.ranges, fail_on_data_loss=fail_on_data_loss)
        blocks = _blocks(pulls.replies())

        async def more() -> list[Pulled] | None:
            return await anext(blocks, None)

        def look(key: BrokerQueue, offset: int) -> tuple[int, int] | None:
            return cluster.run(pulls.message_at(key, offset))

        watch = EndsWatch(piece.planned, look, fail=fail_on_data_loss)
        try:
            while (block := cluster.run(more())) is not None:
                for replies, bounds, records in _parts(block, buffer, fail=fail_on_data_loss):
                    own = watch.own([each.key for each in replies], bounds, records)
                    wanted = selection.pick(own)
                    if len(wanted):
                        yield BrokerRecords(block[0].key.broker, wanted)
        finally:
            cluster.run(blocks.aclose())


async def _blocks(
    replies: AsyncGenerator[list[Pulled], None],
) -> AsyncGenerator[list[Pulled], None]:
    """Replies of one broker, some thousand records together: threads change once for so many."""
    block: list[Pulled] = []
    records = size = 0
    async with aclosing(replies):
        async for found in replies:
            for each in found:
                full = records >= BLOCK_RECORDS or size >= BLOCK_BYTES
                if block and (full or each.key.broker != block[0].key.broker):
                    yield block
                    block, records, size = [], 0, 0
                block.append(each)
                records += each.end - each.offset
                size += len(each.body)
        if block:
            yield block


def _parts(
    block: list[Pulled], buffer: ReplyBuffer, *, fail: bool
) -> Iterator[tuple[list[Pulled], Ints, Records]]:
    """Some replies, each one's first record, and these: each offset that was asked for once.

    They come together, but for batches, which are taken apart reply by reply.
    """
    try:
        data, bounds = buffer.join([each.body for each in block])
        starts, sizes = find_records(data, bounds)
        records = Records(data, 0, starts, sizes)
    except CorruptRecord as error:
        first, last = block[0], block[-1]
        raise CorruptRecord(
            f"messages from queue {first.key} offset {first.offset} to queue {last.key}"
            f" offset {last.end}, as their broker sent them: {error}"
        ) from error
    first_rows = np.searchsorted(starts, bounds)
    if not wrapped(records).any():
        asked, first_rows = _asked(block, records, first_rows, fail=fail)
        yield block, first_rows, asked
        return
    for each, low, high in zip(block, first_rows[:-1], first_rows[1:], strict=True):
        found = [np.empty(0, np.int64)]
        wanted = QueueRange(each.key, each.offset, each.end)
        for part in unwrapped([records.only(slice(low, high))], [wanted]):
            offsets = part.field("queue_offset", np.int64)
            rows = np.flatnonzero((offsets >= each.offset) & (offsets < each.end))
            found.append(offsets[rows])
            if len(rows):
                yield [each], np.array([0, len(rows)], np.int64), part.only(rows)
        _report_gaps([each], [np.concatenate(found)], fail=fail)


def _asked(
    block: list[Pulled], records: Records, first_rows: Ints, *, fail: bool
) -> tuple[Records, Ints]:
    """The records of some replies whose offsets were asked for, and each reply's first."""
    counts = np.diff(first_rows)
    firsts = np.array([each.offset for each in block], np.int64)
    ends = np.array([each.end for each in block], np.int64)
    offsets: Ints = records.field("queue_offset", np.int64)
    expected = np.repeat(firsts - first_rows[:-1], counts) + np.arange(len(offsets))
    if np.array_equal(counts, ends - firsts) and np.array_equal(offsets, expected):
        return records, first_rows
    wanted = offsets >= np.repeat(firsts, counts)
    wanted &= offsets < np.repeat(ends, counts)
    _report_gaps(block, np.split(offsets, first_rows[1:-1]), fail=fail)
    if wanted.all():
        return records, first_rows
    kept = records.only(np.flatnonzero(wanted))
    passed = np.concatenate([[0], np.cumsum(wanted)])
    return kept, passed[first_rows]


def _report_gaps(block: list[Pulled], offsets: list[Ints], *, fail: bool) -> None:
    """Tell the offsets that a broker passed over: their files were being deleted."""
    lost = []
    for each, found in zip(block, offsets, strict=True):
        found = found[(found >= each.offset) & (found < each.end)]
        edges = np.concatenate([[each.offset - 1], found, [each.end]])
        for at in np.flatnonzero(np.diff(edges) > 1).tolist():
            lost.append(QueueRange(each.key, int(edges[at]) + 1, int(edges[at + 1])))
    report_lost(lost, fail=fail)
