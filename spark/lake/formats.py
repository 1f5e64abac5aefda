"""The formats of an export: their columns, their compressions, and how a file of each is opened."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from aerobee.spark.errors import OptionError
from aerobee.spark.lake.disk import Disk
from aerobee.spark.lake.files import Sink
from aerobee.spark.lake.synced_file import SyncedFile
from aerobee.spark.records.columns import PROPERTIES, USUAL, arrow_schema

EXPORTED = ("broker", *(name for name in USUAL if name != "topic"))  # which is in the folder's name
FORMATS = ("parquet", "delta", "json")
_COMPRESSIONS = {  # the first is the usual one
    "parquet": ("snappy", "zstd", "none"),
    "delta": ("snappy", "zstd", "none"),
    "json": ("gzip", "zstd", "none"),
}
_PARTITIONED = (("topic", pa.string()), ("date", pa.date32()))
_JSON_ENDINGS = {"gzip": ".jsonl.gz", "zstd": ".jsonl.zst", "none": ".jsonl"}


@dataclass(frozen=True, slots=True)
class Format:
    """A format, its compression and what its properties are, checked; travels to the tasks."""

    name: str
    compression: str
    properties: str = PROPERTIES[0]

    @classmethod
    def choose(cls, name: str, compression: str | None, properties: str = PROPERTIES[0]) -> Format:
        """The format of that name, with its usual compression if none is given.

        Raises OptionError.
        """
        if name not in FORMATS:
            raise OptionError(f"format {name!r} is not one of {', '.join(FORMATS)}{_near(name)}")
        if properties not in PROPERTIES:
            raise OptionError(f"properties {properties!r} is not one of {', '.join(PROPERTIES)}")
        if name == "json" and properties != PROPERTIES[0]:
            raise OptionError(
                "format json has properties as an object: properties='binary' is for parquet, delta"
            )
        allowed = _COMPRESSIONS[name]
        chosen = compression or allowed[0]
        if chosen not in allowed:
            raise OptionError(
                f"compression {chosen!r} is not one of {', '.join(allowed)} (format {name})"
            )
        if name == "delta" and importlib.util.find_spec("deltalake") is None:
            raise OptionError(
                "format delta needs the package deltalake: pip install 'aerobee[spark,delta]'"
            )
        return cls(name, chosen, properties)

    @property
    def ending(self) -> str:
        """What ends the names of its files."""
        if self.name == "json":
            return _JSON_ENDINGS[self.compression]
        return ".parquet" if self.compression == "none" else f".{self.compression}.parquet"

    def opener(self, disk: Disk, schema: pa.Schema, *, ordered: bool) -> Callable[[Path], Sink]:
        """How its files are made; `ordered` if rows come in the log's order."""
        if self.name == "json":
            from aerobee.spark.lake.json_files import JsonSink

            return lambda path: JsonSink(SyncedFile(path, disk, direct=False), self.compression)
        from aerobee.spark.lake.parquet_files import ParquetSink

        return lambda path: ParquetSink(
            SyncedFile(path, disk), schema, self.compression, ordered=ordered
        )


def exported_schema(properties: str) -> pa.Schema:
    """The columns of an exported table, those of the folders' names among them.

    `properties` is what that column is, `map` or `binary`.
    """
    folders = [pa.field(name, kind, nullable=False) for name, kind in _PARTITIONED]
    return pa.schema([*arrow_schema(EXPORTED, properties), *folders])


def _near(name: str) -> str:
    found = difflib.get_close_matches(name.lower(), FORMATS, n=1)
    return f"; did you mean {found[0]}?" if found else ""
