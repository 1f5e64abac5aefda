"""Topics that are still there: a read along the log leaves out the messages of those deleted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import numpy as np

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.queue_folders import topic_dirs
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.records import loops
from aerobee.spark.records.headers import Records


class KnownTopics:
    """Topics that have queues; records at the log position `before`, or behind it, are of no other.

    A deleted topic's messages stay in the log until its files go. What the ConsumeQueues lead to
    has none of them; so that a filter does not change what there is, a read along the log leaves
    them out too, up to where a broker has filled its queues: behind that a topic may just have
    none yet.

    `table` is what a pass over records looks them up in, `loops.topic_table`'s.
    """

    def __init__(self, topics: Iterable[bytes], before: int) -> None:
        self.before = before
        self.table = loops.chosen.topic_table(frozenset(topics))

    @classmethod
    def of_piece(cls, piece: Piece) -> KnownTopics:
        """Those of the store, as far as they matter to a piece of its log, else ALL_COUNT."""
        queues_dir = piece.queues_dir
        if queues_dir is None or piece.start >= piece.dispatched:
            return ALL_COUNT
        topics = topic_dirs(queues_dir)
        if not topics and not disk.is_folder(queues_dir):
            return ALL_COUNT  # a store that is taken away: the log's file, still open, is read on
        return cls(map(os.fsencode, topics), piece.dispatched)

    def pick(self, records: Records) -> Records:
        """Those of the records that count, in the same order."""
        if not self.before or not len(records):
            return records
        known = loops.chosen.known_topics(records, self.table)
        if known.all():
            return records
        positions = records.field("position", np.int64)
        return records.only(np.flatnonzero(known | (positions >= self.before)))


ALL_COUNT: Final = KnownTopics((), 0)  # no record is left out for its topic
