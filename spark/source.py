"""`spark.read.format("rocketmq")`: the entry that PySpark knows, and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aerobee.spark.columns import ARROW_TYPES, BY_NAME
from aerobee.spark.errors import OptionError
from aerobee.spark.options import Options, parse_options, unknown_column
from aerobee.spark.plan import Piece

if TYPE_CHECKING:
    import pyarrow as pa

_SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType(), valueContainsNull=False),
}


class RocketMQSource(DataSource):
    """A RocketMQ or Aerobee store's CommitLog as a table, one row per message."""

    @classmethod
    def name(cls) -> str:
        """The word for `spark.read.format(...)`."""
        return "rocketmq"

    def schema(self) -> StructType:
        """The columns asked for by options, or the usual ones. Raises OptionError."""
        options = parse_options(self.options)
        fields = []
        for name in options.columns:
            column = BY_NAME[name]
            kind = options.properties if name == "properties" else ""
            spark_type = _SPARK_TYPES["binary" if kind == "binary" else column.types[0]]
            fields.append(StructField(name, spark_type, nullable=column.nullable))
        return StructType(fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the given columns: those of `schema()`, or of the query's own schema.

        Raises OptionError where the query's own schema asks for what there is not.
        """
        return LogReader(parse_options(self.options), _readable(schema))


@dataclass
class LogPartition(InputPartition):
    """What one task reads."""

    piece: Piece
    queues_dir: str | None


class LogReader(DataSourceReader):
    """Plans on the driver, reads and decodes in the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per piece of the log. Raises StoreUnreadable."""
        from aerobee.spark.planner import plan_store

        plan = plan_store(
            self._options.path, self._options.selection, self._options.partition_bytes
        )
        return [LogPartition(piece, plan.queues_dir) for piece in plan.pieces]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one partition; Spark makes one of None out of an empty plan."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from aerobee.spark.decode import Decoder
        from aerobee.spark.pieces import piece_batches

        if not isinstance(partition, LogPartition):
            return
        decoder = Decoder(
            to_arrow_schema(self._schema, timezone="UTC"), decompress=self._options.decompress
        )
        yield from piece_batches(
            partition.piece, partition.queues_dir, self._options.selection, decoder
        )


def _readable(schema: StructType) -> StructType:
    """The schema, if every column in it can be read as its type."""
    for field in schema.fields:
        column = BY_NAME.get(field.name)
        if column is None:
            raise unknown_column("schema", field.name)
        if not any(_same(field.dataType, _SPARK_TYPES[name]) for name in column.types):
            raise OptionError(
                f"schema: column {field.name} cannot be read as {field.dataType.simpleString()},"
                f" only as {' or '.join(column.types)}; cast it in the query"
            )
    return schema


def _same(given: Any, offered: DataType) -> bool:
    """Whether the types agree, whatever they say about nulls."""
    return bool(given.simpleString() == offered.simpleString())


assert set(_SPARK_TYPES) == set(ARROW_TYPES), "columns.py and Spark know the same types"
