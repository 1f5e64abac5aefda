"""The batch reader of `spark.read.format("rocketmq")` with `namesrv`: plans, and reads in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from aerobee.spark.options.query import Options
from aerobee.spark.records.selection import Selection
from aerobee.spark.versions import FromDriver

if TYPE_CHECKING:
    import pyarrow as pa

    from aerobee.spark.network.reads import NetworkPiece


@dataclass
class NetworkPartition(InputPartition):
    """What one task reads."""

    piece: NetworkPiece


class NetworkReader(FromDriver, DataSourceReader):
    """Asks brokers on the driver what there is, and pulls it in the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selection = options.selection

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per task. Raises OptionError, ClusterUnreachable, DataLost."""
        from aerobee.spark.network.plan import plan_network

        return [NetworkPartition(each) for each in plan_network(self._options, self._selection)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The messages of one partition; Spark makes one of None out of an empty plan."""
        if isinstance(partition, NetworkPartition):
            yield from read_piece(partition.piece, self._options, self._schema, self._selection)


class PushingNetworkReader(NetworkReader):
    """The same with filters taken over from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow what is read; return what Spark has to filter itself."""
        from aerobee.spark.planning.pushdown import push

        self._selection, left = push(self._selection, filters)
        return left


def read_piece(
    piece: NetworkPiece, options: Options, schema: StructType, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The wanted messages of a piece as batches of the schema's columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from aerobee.spark.network.reads import network_batches
    from aerobee.spark.reading.worker_heap import settle_heap
    from aerobee.spark.records.decode import Decoder

    columns = to_arrow_schema(schema, timezone="UTC")

    def decoder_of(broker: str) -> Decoder:
        return Decoder(
            columns,
            decompress=options.decompress,
            verify_crc=options.verify_crc,
            broker=broker,
        )

    fail = options.fail_on_data_loss
    yield from network_batches(piece, selection, decoder_of, fail_on_data_loss=fail)
    settle_heap()
