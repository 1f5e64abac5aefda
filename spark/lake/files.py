"""Rows by topic and day into files of one task: bounded memory, bounded files, any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from aerobee.spark.lake.folders import Partition, day_text
from aerobee.spark.lake.manifest import ExportedFile

ROW_GROUP_BYTES = 32 << 20  # readers skip by row group, and hold one in memory
BUFFERED_BYTES_MAX = 192 << 20  # of all partitions of one task together
BATCH_BYTES = 8 << 10  # what a batch costs beside its data: buffers, objects
BATCHES_MAX = 32  # small ones that wait for a row group; they are joined then
JOIN_BELOW_BYTES = 256 << 10  # on average: larger ones are written as they are
OPEN_FILES_MAX = 128


class Sink(Protocol):
    """A file being written in some format."""

    @property
    def bytes(self) -> int:
        """How many bytes have been written so far; of a closed file all that it has."""

    def write(self, table: pa.Table) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Finish the file and bring its content to the disk."""


@dataclass
class _Open:
    """A file being written and the rows that wait to be."""

    number: int
    sink: Sink | None = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0
    first_ms: int = 2**63 - 1
    last_ms: int = -(2**63)


class PartitionedFiles:
    """Writes batches into files of one partition each, all of them directly in `folder`.

    `name` begins the names that the files will have in the lake, unique in all of it; `ending`
    ends them. A file is opened when the first rows go out, and closed at about `file_bytes`,
    or when more than OPEN_FILES_MAX are open at once. `folder` must be there.
    """

    def __init__(
        self,
        folder: Path,
        open_sink: Callable[[Path], Sink],
        *,
        name: str,
        ending: str,
        file_bytes: int,
    ) -> None:
        self._folder = folder
        self._open_sink = open_sink
        self._name = name
        self._ending = ending
        self._file_bytes = file_bytes
        self._open: dict[Partition, _Open] = {}
        self._written: list[ExportedFile] = []
        self._buffered_bytes = 0
        self._files = 0

    def add(
        self, partition: Partition, batch: pa.RecordBatch, size: int, times: tuple[int, int]
    ) -> None:
        """Add a batch of `size` bytes, whose store timestamps (ms) span `times`, to a partition."""
        file = self._open.pop(partition, None) or self._start()
        self._open[partition] = file  # the last used one is last: the first makes room
        size += BATCH_BYTES
        file.waiting.append(batch)
        file.waiting_bytes += size
        file.rows += len(batch)
        file.first_ms, file.last_ms = min(file.first_ms, times[0]), max(file.last_ms, times[1])
        self._buffered_bytes += size
        if file.waiting_bytes >= min(ROW_GROUP_BYTES, self._file_bytes):
            self._flush(partition)
            if file.sink is not None and file.sink.bytes >= self._file_bytes:
                self._finish(partition)
        elif len(file.waiting) >= BATCHES_MAX and file.waiting_bytes < JOIN_BELOW_BYTES * len(
            file.waiting
        ):
            self._join(file)
        while self._buffered_bytes > BUFFERED_BYTES_MAX:
            self._flush(max(self._open, key=lambda each: self._open[each].waiting_bytes))

    def close(self) -> list[ExportedFile]:
        """Finish every file, on disk; return what was written."""
        while self._open:
            self._finish(next(iter(self._open)))
        return self._written

    def _start(self) -> _Open:
        self._files += 1
        return _Open(self._files)

    def _staged(self, file: _Open) -> str:
        return f"{file.number:05d}{self._ending}"

    def _join(self, file: _Open) -> None:
        joined = pa.Table.from_batches(file.waiting).combine_chunks()
        file.waiting = joined.to_batches()
        size = joined.nbytes + BATCH_BYTES
        self._buffered_bytes += size - file.waiting_bytes
        file.waiting_bytes = size

    def _flush(self, partition: Partition) -> None:
        file = self._open[partition]
        if file.sink is None:
            writing = [each for each in self._open if self._open[each].sink is not None]
            if len(writing) >= OPEN_FILES_MAX:
                self._finish(writing[0])
            file.sink = self._open_sink(self._folder / self._staged(file))
        file.sink.write(pa.Table.from_batches(file.waiting))
        self._buffered_bytes -= file.waiting_bytes
        file.waiting, file.waiting_bytes = [], 0

    def _finish(self, partition: Partition) -> None:
        if self._open[partition].waiting:
            self._flush(partition)
        file = self._open.pop(partition)
        assert file.sink is not None, "a file is opened with its first rows"
        file.sink.close()
        staged = self._staged(file)
        self._written.append(
            ExportedFile(
                path=f"{partition.folder}/{self._name}-{staged}",
                staged=f"{self._folder.name}/{staged}",
                topic=partition.topic,
                date=day_text(partition.day),
                rows=file.rows,
                bytes=file.sink.bytes,
                first_ms=file.first_ms,
                last_ms=file.last_ms,
            )
        )
