"""JSON lines as the export writes them: one object per message, compressed.

A body that is valid UTF-8 is the text `body`; any other is `body_base64`. A line has exactly one
of the two. Times are ISO 8601 in UTC, properties an object; null columns are left out.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import zstandard
from isal import igzip

from aerobee.spark.lake.synced_file import SyncedFile

_GZIP_LEVEL, _ZSTD_LEVEL = 2, 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class JsonSink:
    """One file of JSON lines being written."""

    def __init__(self, file: SyncedFile, compression: str) -> None:
        self._plain = file
        self._file: Any = _packing(file, compression)

    @property
    def bytes(self) -> int:
        """How many bytes have been written so far."""
        return self._plain.tell()

    def write(self, table: pa.Table) -> None:
        """Write a line per row."""
        for batch in table.to_batches():
            names = batch.schema.names
            columns = [_values(batch.column(at)) for at in range(batch.num_columns)]
            lines = [_line(names, row) for row in zip(*columns, strict=True)]
            self._file.write(b"\n".join(lines) + b"\n")
        self._plain.drain()

    def close(self) -> None:
        """Finish the file and bring its content to the disk."""
        if self._file is not self._plain:
            self._file.close()
        self._plain.close()


def _packing(plain: Any, compression: str) -> Any:
    if compression == "gzip":
        packer: Any = igzip.IGzipFile
        return packer(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=plain)
    if compression == "zstd":
        return zstandard.ZstdCompressor(_ZSTD_LEVEL).stream_writer(plain, closefd=False)
    return plain


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [_time_text(value) for value in column.cast(pa.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [dict(pairs) for pairs in values]
    return values


def _time_text(microseconds: int) -> str | int:
    """ISO 8601 with milliseconds; a time outside the calendar as the number (ms) it is."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds // 1000
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(names: list[str], row: tuple[Any, ...]) -> bytes:
    values: dict[str, Any] = {}
    for name, value in zip(names, row, strict=True):
        if name == "body":
            try:
                values[name] = value.decode()
            except UnicodeDecodeError:
                values["body_base64"] = base64.b64encode(value).decode()
        elif value is not None:
            values[name] = value
    return _encode(values)
