"""What Spark's rows from Python cost by themselves: a source that only hands them over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.spark_stores import Stored

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS: Final = 16_000  # as many as our batches of small records have
PARTITIONS: Final = 4


def bare_bodies(spark: SparkSession, store: Stored) -> DataFrame:
    """As many bodies as the store has, as long as its, of one column `body`.

    A batch is made once for each task, and given out again and again: nothing is read or decoded.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    count, size = store.records // PARTITIONS, store.body_bytes

    # classes of a function travel to the workers as they are, which do not know this module
    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(PARTITIONS)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import os

            import pyarrow as pa

            schema = pa.schema([("body", pa.binary())])
            bodies = pa.array([os.urandom(size)] * BATCH_ROWS, pa.binary())
            batch = pa.RecordBatch.from_arrays([bodies], schema=schema)
            for at in range(0, count, BATCH_ROWS):
                yield batch.slice(0, min(BATCH_ROWS, count - at))

    class Bare(DataSource):
        @classmethod
        def name(cls) -> str:
            return "bare"

        def schema(self) -> str:
            return "body binary"

        def reader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Bare)
    return spark.read.format("bare").load()
