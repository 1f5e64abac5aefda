"""What one of Spark's tasks reads of a store, and how it does: the same for batches and streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from aerobee.spark.options.query import Options
from aerobee.spark.records.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

    from aerobee.spark.planning.store_pieces import StorePiece


class TaskPartition(InputPartition, ABC):
    """What one task reads, wherever it comes from."""

    @abstractmethod
    def read(
        self, options: Options, schema: StructType, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """The wanted messages as batches of the schema's columns."""


@dataclass
class LogPartition(TaskPartition):
    """What one task reads of a store."""

    store_piece: StorePiece

    def read(
        self, options: Options, schema: StructType, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """The wanted records of the piece."""
        return read_store_piece(self.store_piece, options, schema, selection)


def read_store_piece(
    store_piece: StorePiece, options: Options, schema: StructType, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a piece as batches of the schema's columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from aerobee.spark.reading.pieces import piece_batches
    from aerobee.spark.reading.worker_heap import settle_heap
    from aerobee.spark.records.damage import DamagePolicy
    from aerobee.spark.records.decode import Decoder

    decoder = Decoder(
        to_arrow_schema(schema, timezone="UTC"),
        decompress=options.decompress,
        verify_crc=options.verify_crc,
        broker=store_piece.broker,
    )
    damage = DamagePolicy(options.mode, fail_on_data_loss=options.fail_on_data_loss)
    for batch in piece_batches(store_piece.piece, selection, decoder, damage):
        if store_piece.planned.log_lost(store_piece.piece.log_dir, fail=options.fail_on_data_loss):
            break
        yield batch
    settle_heap()
