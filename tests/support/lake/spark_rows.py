"""What a query of the Spark source reads of stores, without a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import Filter, InputPartition

from aerobee.spark.options.query import parse_options
from aerobee.spark.source import PushingBatchReader, RocketMQSource


def rows(
    store: Path | str, filters: Sequence[Filter] = (), /, **options: str
) -> list[dict[str, Any]]:
    """The rows of a query whose options are these, with filters pushed; in the log's order."""
    return rows_of({"path": str(store), **options}, filters)


def rows_of(options: dict[str, str], filters: Sequence[Filter] = ()) -> list[dict[str, Any]]:
    """Likewise, all of its options given."""
    source = RocketMQSource(options)
    reader = PushingBatchReader(parse_options(options), source.schema())
    if filters:
        reader.pushFilters(list(filters))
    found: list[dict[str, Any]] = []
    partitions: Sequence[InputPartition | None] = reader.partitions() or [None]
    for partition in partitions:
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found
