"""The columns of the source: one table of names, types and costs, and what a query may choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who only looks at names, as Spark's planners do, does not pay for it
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its Spark types (the first is the usual one), and whether it is null.

    `usual` says whether it is read when a query names no columns.
    """

    name: str
    types: tuple[str, ...]
    nullable: bool = False
    usual: bool = True


COLUMNS = (
    Column("topic", ("string",)),
    Column("queue_id", ("int",)),
    Column("queue_offset", ("bigint",)),
    Column("store_timestamp", ("timestamp", "bigint")),
    Column("born_timestamp", ("timestamp", "bigint")),
    Column("tags", ("string",), nullable=True),
    Column("keys", ("string",), nullable=True),
    Column("properties", ("map<string,string>", "binary")),
    Column("body", ("binary",)),
    Column("born_host", ("string",)),
    Column("store_host", ("string",)),
    Column("sys_flag", ("int",)),
    Column("reconsume_times", ("int",)),
    Column("commit_log_offset", ("bigint",)),
    Column("flag", ("int",), usual=False),
    Column("body_crc", ("int",), usual=False),
    Column("body_bytes", ("int",), usual=False),
    Column("record_bytes", ("int",), usual=False),
    Column("prepared_transaction_offset", ("bigint",), usual=False),
    Column("tags_code", ("bigint",), usual=False),
    Column("broker", ("string",), usual=False),
    Column("_corrupt", ("string",), nullable=True, usual=False),
)
CORRUPT = "_corrupt"
PROPERTIES = ("map", "binary")  # what that column may be; the first is the usual one
# what the ConsumeQueues tell: a read of these alone does not touch the log
FROM_QUEUES = frozenset(
    {
        *("topic", "queue_id", "queue_offset", "commit_log_offset", "record_bytes"),
        *("tags_code", "broker"),
    }
)
BY_NAME = {column.name: column for column in COLUMNS}
USUAL = tuple(column.name for column in COLUMNS if column.usual)


def arrow_types() -> dict[str, pa.DataType]:
    """The Arrow type of each Spark type that columns have."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False)),
    }


def arrow_schema(names: Sequence[str], properties: str = PROPERTIES[0]) -> pa.Schema:
    """The Arrow schema of the named columns with their usual types.

    `properties` is `map` or `binary`.
    """
    import pyarrow as pa

    types = arrow_types()
    fields = []
    for name in names:
        column = BY_NAME[name]
        kind = types[column.types[0]]
        if name == "properties" and properties == "binary":
            kind = pa.binary()
        fields.append(pa.field(name, kind, nullable=column.nullable))
    return pa.schema(fields)
