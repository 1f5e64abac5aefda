"""Parquet files as the export writes them: cheap to make, easy to skip.

Rows stand in the log's order, so by store time and, within a queue, by offset. Statistics are
kept of the columns that queries narrow by, for the file and for each row group; of bodies, keys
and properties they would be long and useless. Numbers that mostly ascend are written as
differences, small ones as they are, which the compression sees to; dictionaries are made where
texts repeat, and nowhere else: they cost a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aerobee.spark.lake.synced_file import SyncedFile

PAGE_BYTES = 128 << 10  # is compressed while it is in the processor's cache: a tenth less CPU
_REPEATING = ("broker", "tags", "born_host", "store_host")
_ASCENDING = ("queue_offset", "store_timestamp", "born_timestamp", "commit_log_offset")
_PRUNING = (
    *("broker", "queue_id", "queue_offset", "store_timestamp", "born_timestamp", "tags"),
    *("reconsume_times", "commit_log_offset"),
)


class ParquetSink:
    """One Parquet file being written; each table becomes a row group."""

    def __init__(
        self, file: SyncedFile, schema: pa.Schema, compression: str, *, ordered: bool
    ) -> None:
        self._file = file
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,
            data_page_size=PAGE_BYTES,
            use_dictionary=_among(_REPEATING, schema),
            column_encoding=dict.fromkeys(_among(_ASCENDING, schema), "DELTA_BINARY_PACKED"),
            write_statistics=_among(_PRUNING, schema),
            sorting_columns=_order(schema) if ordered else None,
            store_schema=False,  # which would have readers make dictionaries of what is text
        )

    @property
    def bytes(self) -> int:
        """How many bytes have been written so far."""
        return self._file.tell()

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        # with a second dictionary of a column a row group goes on without any
        self._writer.write_table(table.unify_dictionaries(), row_group_size=max(len(table), 1))
        self._file.drain()

    def close(self) -> None:
        """Finish the file and bring its content to the disk."""
        self._writer.close()
        self._file.close()


def _among(names: Sequence[str], schema: pa.Schema) -> list[str]:
    return [name for name in names if name in schema.names]


def _order(schema: pa.Schema) -> Any:
    """The log's order, where the schema has the column that shows it."""
    if "commit_log_offset" not in schema.names:
        return None
    # Parquet counts leaves, of which a map has two
    return pq.SortingColumn.from_ordering(schema, [("commit_log_offset", "ascending")])
