"""Parquet files as the export writes them: cheap to make, easy to skip.

Rows stand in the log's order, so by store time and, within a queue, by offset. Statistics are
kept of the columns that queries narrow by, for the file and for each row group; of bodies, keys
and properties they would be long and useless. Distinct values gain nothing from a dictionary,
which costs a third of the time.
"""

from __future__ import annotations

import os
from pathlib import Path

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
        position = schema.get_field_index("commit_log_offset")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,
            use_dictionary=[name for name in _REPEATING if name in schema.names],
            write_statistics=[name for name in _PRUNING if name in schema.names],
            sorting_columns=[pq.SortingColumn(position)] if ordered and position >= 0 else None,
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


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
