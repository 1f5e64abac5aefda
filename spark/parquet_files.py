"""Parquet files by topic and day, written by one task with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aerobee.spark.cells import ragged, text
from aerobee.spark.layout import Ints, Records

ROW_GROUP_BYTES = 32 << 20  # readers skip by row group, and hold one in memory
BUFFERED_BYTES_MAX = 192 << 20  # of all partitions of one task together
BATCH_BYTES = 8 << 10  # what a batch costs beside its data: buffers, objects
BATCHES_MAX = 32  # that wait for a row group; small ones are joined then
OPEN_FILES_MAX = 128
DAY_MS = 86_400_000
COMPRESSIONS = ("snappy", "zstd", "none")
_REPEATING = ("tags", "born_host", "store_host", "queue_id", "sys_flag", "reconsume_times")
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^" + "".join(map(chr, range(1, 32))))


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One folder of the export: a topic's messages of one day (UTC, by store timestamp)."""

    topic: str
    day: int  # since 1970-01-01

    @property
    def folder(self) -> str:
        """The folder below the export's, as Hive, Spark and pyarrow read partitions back."""
        return f"topic={escape_path(self.topic)}/date={day_text(self.day)}"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One finished file: its path below the task's folder and what it holds."""

    path: str
    partition: Partition
    rows: int
    bytes: int
    store_timestamp_min: int  # ms
    store_timestamp_max: int


def escape_path(name: str) -> str:
    """A partition value as a folder name, by the rules of Hive's FileUtils.escapePathName."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def day_text(day: int) -> str:
    """A day since 1970 as an ISO date; days outside the calendar become its ends."""
    low, high = (limit.toordinal() for limit in (date.min, date.max))
    epoch = date(1970, 1, 1).toordinal()
    return (date.min + timedelta(min(max(epoch + day, low), high) - low)).isoformat()


def group(records: Records) -> Iterator[tuple[Partition, Ints]]:
    """The partitions among the records and the rows of each, in the log's order."""
    topics = text(ragged(records.data, records.topic_at, records.topic_bytes))
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    days = records.field("store_timestamp", np.int64) // DAY_MS
    days, day_codes = np.unique(days, return_inverse=True)
    codes = encoded.indices.to_numpy() * np.int64(len(days)) + day_codes
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        topic, day = divmod(int(codes[rows[0]]), len(days))
        yield Partition(names[topic], int(days[day])), rows


@dataclass
class _Open:
    """A file being written and the rows that wait for the next row group."""

    path: str
    writer: Any = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0
    time_min: int = 2**63 - 1
    time_max: int = -(2**63)


class ParquetFiles:
    """Writes batches into one file per partition below `folder`.

    `name` goes into each file's name, which is unique in the export. A file is opened when the
    first row group goes out; a partition gets a further one where more than OPEN_FILES_MAX are
    open at once.
    """

    def __init__(self, folder: Path, schema: pa.Schema, *, name: str, compression: str) -> None:
        self._folder = folder
        self._schema = schema
        self._name = name
        self._compression = compression
        self._open: dict[Partition, _Open] = {}
        self._written: list[WrittenFile] = []
        self._buffered_bytes = 0
        self._files = 0

    def add(self, partition: Partition, batch: pa.RecordBatch, times: tuple[int, int]) -> None:
        """Add a batch, whose store timestamps (ms) span `times`, to a partition."""
        file = self._open.pop(partition, None) or self._start(partition)
        self._open[partition] = file  # the last used one is last: the first makes room
        size = batch.nbytes + BATCH_BYTES
        file.waiting.append(batch)
        file.waiting_bytes += size
        file.rows += len(batch)
        file.time_min, file.time_max = min(file.time_min, times[0]), max(file.time_max, times[1])
        self._buffered_bytes += size
        if file.waiting_bytes >= ROW_GROUP_BYTES:
            self._flush(partition)
        elif len(file.waiting) >= BATCHES_MAX:
            self._join(file)
        while self._buffered_bytes > BUFFERED_BYTES_MAX:
            self._flush(max(self._open, key=lambda each: self._open[each].waiting_bytes))

    def close(self) -> list[WrittenFile]:
        """Finish every file, on disk; return what was written."""
        while self._open:
            self._finish(next(iter(self._open)))
        return self._written

    def _start(self, partition: Partition) -> _Open:
        self._files += 1
        path = f"{partition.folder}/part-{self._name}-{self._files:05d}.parquet"
        (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
        return _Open(path)

    def _join(self, file: _Open) -> None:
        joined = pa.Table.from_batches(file.waiting, self._schema).combine_chunks()
        file.waiting = joined.to_batches()
        size = joined.nbytes + BATCH_BYTES
        self._buffered_bytes += size - file.waiting_bytes
        file.waiting_bytes = size

    def _flush(self, partition: Partition) -> None:
        file = self._open[partition]
        if file.writer is None:
            writing = [each for each in self._open if self._open[each].writer is not None]
            if len(writing) >= OPEN_FILES_MAX:
                self._finish(writing[0])
            file.writer = pq.ParquetWriter(
                self._folder / file.path,
                self._schema,
                compression=self._compression,
                # distinct bodies and keys gain nothing from a dictionary and cost a third more
                use_dictionary=[name for name in _REPEATING if name in self._schema.names],
                write_statistics=True,
            )
        table = pa.Table.from_batches(file.waiting, self._schema)
        file.writer.write_table(table, row_group_size=max(len(table), 1))
        self._buffered_bytes -= file.waiting_bytes
        file.waiting, file.waiting_bytes = [], 0

    def _finish(self, partition: Partition) -> None:
        if self._open[partition].waiting:
            self._flush(partition)
        file = self._open.pop(partition)
        file.writer.close()
        path = self._folder / file.path
        with path.open("rb") as written:
            os.fsync(written.fileno())
            size = os.fstat(written.fileno()).st_size
        self._written.append(
            WrittenFile(file.path, partition, file.rows, size, file.time_min, file.time_max)
        )
