"""Parquet files as the export writes them: cheap to make, easy to skip.

Rows stand in the log's order, so by store time and, within a queue, by offset. Statistics are
kept of the columns that queries narrow by, for the file and for each row group; of bodies, keys
and properties they would be long and useless. Distinct values gain nothing from a dictionary,
which costs a third of the time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_REPEATING = (
    *("broker", "queue_id", "tags", "born_host", "store_host", "sys_flag", "reconsume_times"),
)
_PRUNING = (
    *("broker", "queue_id", "queue_offset", "store_timestamp", "born_timestamp", "tags"),
    *("reconsume_times", "commit_log_offset"),
)


class ParquetSink:
    """One Parquet file being written; each table becomes a row group."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str, *, ordered: bool) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,
            use_dictionary=[name for name in _REPEATING if name in schema.names],
            write_statistics=[name for name in _PRUNING if name in schema.names],
            sorting_columns=_order(schema) if ordered else None,
        )

    @property
    def bytes(self) -> int:
        """How many bytes have been written so far."""
        return int(self._file.tell())

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        """Finish the file and bring its content to the disk."""
        self._writer.close()
        self._file.close()
        sync_file(self._path)


def _order(schema: pa.Schema) -> Any:
    """The log's order, where the schema has the column that shows it."""
    if "commit_log_offset" not in schema.names:
        return None
    # Parquet counts leaves, of which a map has two
    return pq.SortingColumn.from_ordering(schema, [("commit_log_offset", "ascending")])


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
