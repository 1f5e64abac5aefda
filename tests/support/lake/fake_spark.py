"""Spark's micro-batches without Spark: its write-ahead log of offsets, its commits, its file sink.

The order of calls is that of MicroBatchExecution in Spark 4.3: offsets are written down before a
micro-batch runs, and its commit afterwards; what a restart finds without a commit runs again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from aerobee.spark.source import RocketMQSource
from aerobee.spark.streams.reader import QueueStreamReader

Row = dict[str, Any]
CRASHES = ("started", "planned", "written", "committed")


class Crash(Exception):
    """The driver was killed."""


@dataclass
class Checkpoint:
    """What outlives a query: its offsets, commits, and what its sink has of each micro-batch."""

    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    sink: dict[int, list[Row]] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        """All rows of committed micro-batches."""
        return [row for number in range(self.commits) for row in self.sink.get(number, [])]


def run(
    reader: DataSourceStreamReader,
    checkpoint: Checkpoint,
    *,
    limit: Any = None,
    batches_max: int = 1000,
    crash: Callable[[str], bool] = lambda _: False,
) -> None:
    """Run a query until there is nothing new; `crash` says at which points it dies (Crash)."""

    def point(name: str) -> None:
        if crash(name):
            raise Crash

    try:
        if len(checkpoint.offsets) > checkpoint.commits:
            _execute(reader, checkpoint, point)
        for _ in range(batches_max):
            last = checkpoint.offsets[-1] if checkpoint.offsets else None
            start = json.dumps(reader.initialOffset()) if last is None else last
            point("started")
            wanted = limit or reader.getDefaultReadLimit()
            end = json.dumps(reader.latestOffset(json.loads(start), wanted))
            if end == last:
                return
            checkpoint.offsets.append(end)
            point("planned")
            _execute(reader, checkpoint, point)
    finally:
        reader.stop()


def _execute(
    reader: DataSourceStreamReader, checkpoint: Checkpoint, point: Callable[[str], None]
) -> None:
    number = len(checkpoint.offsets) - 1
    end = json.loads(checkpoint.offsets[number])
    start = json.loads(checkpoint.offsets[number - 1]) if number else reader.initialOffset()
    rows = []
    for partition in reader.partitions(json.loads(json.dumps(start)), end):
        for batch in reader.read(partition):
            rows += batch.to_pylist()  # type: ignore[union-attr]
    checkpoint.sink[number] = rows
    point("written")
    checkpoint.commits = number + 1
    reader.commit(end)
    point("committed")


def reader_of(root: Path, **options: str) -> QueueStreamReader:
    """A query's reader of a store."""
    usual = {"path": str(root), "columns": "topic, queue_id, queue_offset, body"}
    source = RocketMQSource({**usual, **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, QueueStreamReader)
    return reader


def offsets(checkpoint: Checkpoint) -> dict[tuple[str, int], list[int]]:
    """What the sink has of each queue."""
    found: dict[tuple[str, int], list[int]] = {}
    for row in checkpoint.rows():
        found.setdefault((row["topic"], row["queue_id"]), []).append(row["queue_offset"])
    return {key: sorted(each) for key, each in found.items()}
