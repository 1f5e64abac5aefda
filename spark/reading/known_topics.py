"""Records of topics that have queues told from those of deleted topics, which nobody can consume.

A deleted topic's messages stay in the log until its files go. What the ConsumeQueues lead to has
none of them; so that a filter does not change what there is, a read along the log leaves them out
too, up to where a broker has filled its queues: behind that a topic may just have no queue yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from aerobee.spark.at_rest.log_files import check_absent
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.records import acceleration
from aerobee.spark.records.cells import ragged
from aerobee.spark.records.headers import Bytes, Ints, Records
from aerobee.spark.records.selection import Mask


class KnownTopics:
    """Topics by name; records at the log position `before`, or behind it, are of no other.

    `table` is what the compiled loops look them up in, by their hash, with `before` ahead.
    """

    def __init__(self, topics: Iterable[bytes], before: int) -> None:
        self.before = before
        self._topics = frozenset(topics)
        count = len(self._topics)
        names = np.frombuffer(b"".join(self._topics) or b"\0", np.uint8)
        places = np.zeros((4, max(1, count)), np.int64)
        slots = np.full(1 << (2 * count + 2).bit_length(), -1, np.int32)
        self.table = (before, names, places, slots)
        if acceleration.loops is None:
            return
        at = 0
        for number, topic in enumerate(self._topics):
            acceleration.loops.place_topic(names, at, len(topic), places, number, slots)
            at += len(topic)

    @classmethod
    def of_piece(cls, piece: Piece, queues_dir: str | None) -> KnownTopics | None:
        """Those of the store, as far as they matter to a piece of its log; None if they do not."""
        if queues_dir is None or piece.start >= piece.dispatched:
            return None
        try:
            with os.scandir(os.fsencode(queues_dir)) as entries:
                return cls((entry.name for entry in entries if entry.is_dir()), piece.dispatched)
        except OSError as error:
            check_absent(error, queues_dir)
            return None  # a store that is taken away: the log's file, still open, is read on

    def pick(self, records: Records) -> Records:
        """Those of the records that count, in the same order."""
        if not len(records):
            return records
        known = self._known(records)
        if known.all():
            return records
        positions = records.field("position", np.int64)
        return records.take(np.flatnonzero(known | (positions >= self.before)))

    def _known(self, records: Records) -> Mask:
        if acceleration.loops is None:
            return self._known_slowly(records)
        found: Bytes = np.empty(len(records), np.uint8)
        topic_at: Ints = np.ascontiguousarray(records.topic_at)
        topic_bytes: Ints = np.ascontiguousarray(records.topic_bytes)
        acceleration.loops.known_topics(records.data, topic_at, topic_bytes, *self.table[1:], found)
        mask: Mask = found.view(np.bool_)
        return mask

    def _known_slowly(self, records: Records) -> Mask:
        """The same in numpy, which defines it."""
        cells = ragged(records.data, records.topic_at, records.topic_bytes)
        names = cells.dictionary_encode()  # the few names that there are, each judged once
        good = [name in self._topics for name in names.dictionary.to_pylist()]
        mask: Mask = np.array(good, np.bool_)[names.indices.to_numpy()]
        return mask


NO_TOPICS = KnownTopics((), 0)  # no record is left out for its topic
