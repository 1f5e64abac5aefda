"""`spark.read.format("rocketmq")`: the entry that PySpark knows, and its batch reader."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
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

from aerobee.spark.errors import OptionError
from aerobee.spark.options.query import Options, Use, check_mode, option_texts, parse_options
from aerobee.spark.options.table import is_table, keep_options, kept_options
from aerobee.spark.options.values import unknown_column
from aerobee.spark.reading.partitions import TaskPartition
from aerobee.spark.reading.versions import FromDriver
from aerobee.spark.records.columns import BY_NAME
from aerobee.spark.records.damage import PERMISSIVE

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


_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class RocketMQSource(DataSource):
    """A RocketMQ or Aerobee store's CommitLog as a table, one row per message."""

    @classmethod
    def name(cls) -> str:
        """The word for `spark.read.format(...)`."""
        return "rocketmq"

    def schema(self) -> StructType:
        """The columns asked for by options, or the usual ones. Raises OptionError."""
        options = parse_options(self.options, Use.EITHER)
        fields = []
        for name in options.columns:
            column = BY_NAME[name]
            kind = options.properties if name == "properties" else ""
            spark_type = _SPARK_TYPES["binary" if kind == "binary" else column.types[0]]
            nullable = column.nullable or options.mode == PERMISSIVE
            fields.append(StructField(name, spark_type, nullable=nullable))
        schema = StructType(fields)
        return (
            keep_options(schema, option_texts(self.options)) if is_table(self.options) else schema
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the given columns: those of `schema()`, or of the query's own schema.

        Raises OptionError where the query's own schema asks for what there is not.
        """
        options = parse_options(self._texts(schema))
        kind = PushingBatchReader if options.push_filters and _pushing() else BatchReader
        return kind(options, _readable(schema, options.mode))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of the given columns for `readStream`. Raises OptionError likewise."""
        from aerobee.spark.streams.reader import QueueStreamReader

        options = parse_options(self._texts(schema), Use.STREAM)
        return QueueStreamReader(options, _readable(schema, options.mode))

    def _texts(self, schema: StructType) -> dict[str, str]:
        """The options of the query, and of the table that it reads."""
        texts = kept_options(schema) | option_texts(self.options)
        if not texts:
            raise OptionError(
                "option path is missing; Spark does not hand on the options of a table that was"
                " made with columns: CREATE TABLE without them (OPTIONS (columns '...') chooses"
                " some), or SELECT ... FROM table WITH (path = '...')"
            )
        return texts

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of `df.write`. Raises OptionError, ClusterUnreachable."""
        from aerobee.spark.sinks.writer import sink_writer

        return sink_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of `df.writeStream`. Raises likewise."""
        from aerobee.spark.sinks.writer import stream_sink_writer

        return stream_sink_writer(self.options, schema, overwrite=overwrite)


class BatchReader(FromDriver, DataSourceReader):
    """Plans on the driver, reads and decodes in the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selection = options.selection

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per task. Raises what `plan_read` does."""
        from aerobee.spark.feeds.batch import plan_read

        return plan_read(self._options, self._schema.names, self._selection)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one partition; Spark makes one of None out of an empty plan."""
        if isinstance(partition, TaskPartition):
            yield from partition.read(self._options, self._schema, self._selection)


class PushingBatchReader(BatchReader):
    """The same with filters taken over from Spark, where its settings and an option allow that.

    Spark 4.3 keeps what the last filters have left of a DataFrame for every other query of the
    same DataFrame, one without filters too: so a query must ask for it, and load() for itself.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow what is read; return what Spark has to filter itself."""
        from aerobee.spark.planning.pushdown import push

        self._selection, left = push(self._selection, filters)
        # rows that tell of damage have no values; Spark has to judge them
        return list(filters) if self._options.mode == PERMISSIVE else left


def _pushing() -> bool:
    """Whether Spark asks for a reader in order to hand filters over.

    It refuses readers that could take filters while `spark.sql.python.filterPushdown.enabled` is
    off, and does not tell them that it is; but it hands filters over in a worker of that name.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_WORKER in sys.modules or getattr(main, "name", None) == _PUSHING_WORKER


def _readable(schema: StructType, mode: str) -> StructType:
    """The schema, if every column in it can be read as its type."""
    check_mode(mode, schema.names)
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
