"""Plans as tests look at them: a store's log in pieces, and what the tasks of a query get."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from aerobee.spark.at_rest.log_files import StorePath
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.feeds.batch import plan_read
from aerobee.spark.network.reads import NetworkPartition, NetworkPiece
from aerobee.spark.options.query import Options
from aerobee.spark.planning.log_pieces import Piece, log_pieces, piece_bytes, within_time
from aerobee.spark.planning.store_pieces import StorePiece
from aerobee.spark.reading.partitions import LogPartition
from aerobee.spark.records.selection import Selection


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What is read of a log."""

    pieces: list[Piece]

    @property
    def bytes(self) -> int:
        """How many bytes of the log the pieces cover."""
        return sum(piece.end - piece.start for piece in self.pieces)


def plan_log(path: str, selection: Selection, partition_bytes: int | None = None) -> LogPlan:
    """The pieces of the store at `path` that may hold wanted records.

    `partition_bytes` is the aimed-at size of a piece; None fills this machine's cores. Raises
    StoreUnreadable where there is no store, or a file of it is missing.
    """
    folders = StorePath.find(path)
    state = StoreState.look(Store("", folders.log_dir, folders.queues_dir))
    wanted = within_time(state.segments, state.end, selection)
    total = sum(min(segment.end, state.end) - segment.base for segment in wanted)
    target = partition_bytes or piece_bytes(total, os.cpu_count() or 1)
    return LogPlan(log_pieces(state, wanted, selection, target))


def planned_pieces(
    options: Options, columns: Sequence[str], selection: Selection
) -> list[StorePiece]:
    """What the tasks of a query read of stores."""
    found = plan_read(options, columns, selection)
    return [each.store_piece for each in found if isinstance(each, LogPartition)]


def planned_pulls(options: Options, selection: Selection) -> list[NetworkPiece]:
    """What the tasks of a query pull from brokers."""
    found = plan_read(options, options.columns, selection)
    return [each.piece for each in found if isinstance(each, NetworkPartition)]
