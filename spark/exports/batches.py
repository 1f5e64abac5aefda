"""Records to the batches that are written: by topic and day, decoded, unpacked if asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.spark.lake.folders import DAY_MS, Partition
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import COMPRESSED, Ints
from aerobee.spark.records.tally import QueueTally
from aerobee.spark.records.unpacking import UNPACKED_BYTES_MAX, unpacked

COPY_BELOW = 16  # a slice smaller than this part of its batch is copied, not to keep it whole
Unwanted = Callable[[Records, Ints], None]  # is told the rows that belong to no wanted queue


class Batch(NamedTuple):
    """Rows of one partition: about how many bytes they are, and their first and last time (ms)."""

    partition: Partition
    rows: pa.RecordBatch
    bytes: int
    times: tuple[int, int]


def partitioned(
    records: Records, tally: QueueTally, decoder: Decoder, unwanted: Unwanted | None = None
) -> Iterator[Batch]:
    """The records by topic and day: brought into that order first, decoded once, then sliced.

    The bytes of each are its share of the whole, which are slow to count.
    """
    groups = list(grouped(records, tally, unwanted))
    if not groups:
        return
    order = np.concatenate([rows for _, rows in groups])
    if len(groups) > 1 or len(order) < len(records):
        records = records.only(order)
    batch = decoder.decode(records)
    times = records.field("store_timestamp", np.int64)
    bytes_per_byte = batch.nbytes / records.sizes.sum()
    low = 0
    for partition, rows in groups:
        high = low + len(rows)
        part = batch.slice(low, high - low)
        if (high - low) * COPY_BELOW < len(batch):
            part = part.take(pa.array(np.arange(high - low)))
        size = int(records.sizes[low:high].sum() * bytes_per_byte)
        yield Batch(partition, part, size, (int(times[low:high].min()), int(times[low:high].max())))
        low = high


def grouped(
    records: Records, tally: QueueTally, unwanted: Unwanted | None = None
) -> Iterator[tuple[Partition, Ints]]:
    """The partitions among the wanted records and the rows of each, in the log's order."""
    codes = tally.topic_numbers(records)
    times = records.field("store_timestamp", np.int64)
    days = np.array([times.min(), times.max()]) // DAY_MS
    if days[0] == days[1]:  # as nearly always
        days = days[:1]
    else:
        days, day_codes = np.unique(times // DAY_MS, return_inverse=True)
        codes = codes.astype(np.int64) * len(days) + day_codes
    order = sorting_order(codes)
    codes = codes[order]
    wanted_from = int(np.searchsorted(codes, 0))
    if wanted_from and unwanted is not None:
        unwanted(records, order[:wanted_from])
    order, codes = order[wanted_from:], codes[wanted_from:]
    if not len(order):
        return
    topics = tally.topics
    for rows in np.split(order, np.flatnonzero(np.diff(codes)) + 1):
        topic, day = divmod(int(codes[0]), len(days))
        codes = codes[len(rows) :]
        yield Partition(topics[topic], int(days[day])), rows


def sorting_order(numbers: npt.NDArray[Any]) -> Ints:
    """The rows in the order of their numbers, equal ones as they stand; quick for small numbers."""
    small = np.iinfo(np.int16)  # which numpy sorts digit by digit
    few = small.min <= numbers.min(initial=0) and numbers.max(initial=0) <= small.max
    order: Ints = np.argsort(numbers.astype(np.int16) if few else numbers, kind="stable")
    return order


def unpacked_batch(batch: Batch) -> Iterator[Batch]:
    """The same with its bodies unpacked where they can be; in parts, where they grow large."""
    for rows in unpacked_rows(batch.rows):
        yield batch._replace(rows=rows, bytes=rows.nbytes)


def unpacked_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows likewise."""
    flags = rows.column("sys_flag").to_numpy()
    if not (flags & COMPRESSED).any():
        yield rows
        return
    at = rows.schema.get_field_index("body")
    packed = rows.column(at)
    bodies: list[bytes] = []
    first = size = 0
    for row in range(len(rows)):
        body = unpacked(packed[row].as_py(), int(flags[row]))
        if bodies and size + len(body) > UNPACKED_BYTES_MAX:
            part = _with_bodies(rows.slice(first, len(bodies)), at, bodies)
            bodies, first, size = [], row, 0
            yield part
        bodies.append(body)
        size += len(body)
    yield _with_bodies(rows.slice(first, len(bodies)), at, bodies)


def _with_bodies(rows: pa.RecordBatch, at: int, bodies: list[bytes]) -> pa.RecordBatch:
    """The rows with other bodies, which are column `at`."""
    arrays = rows.columns
    arrays[at] = pa.array(bodies, pa.binary())
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
