"""The columns of what is exported, in files and in the names of their folders."""

from __future__ import annotations

import pyarrow as pa

from aerobee.spark.columns import USUAL, arrow_schema

EXPORTED = ("broker", *(name for name in USUAL if name != "topic"))
_PARTITIONS = (("topic", pa.string()), ("date", pa.date32()))


def exported_schema(properties: str) -> pa.Schema:
    """The columns of an exported table, those of the folders' names among them.

    `properties` is what that column is, `map` or `binary`.
    """
    folders = [pa.field(name, kind, nullable=False) for name, kind in _PARTITIONS]
    return pa.schema([*arrow_schema(EXPORTED, properties), *folders])
