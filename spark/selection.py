"""Which records a query or an export wants, decided before anything large is decoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aerobee.spark.cells import ragged
from aerobee.spark.layout import Records


@dataclass(frozen=True, slots=True)
class Selection:
    """Topics and a range of store timestamps; None stands for no limit.

    `since_ms` is the first, `until_ms` the first no longer wanted, in ms since 1970 (UTC).
    """

    topics: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def everything(self) -> bool:
        """Whether every record is wanted."""
        return self.topics is None and self.since_ms is None and self.until_ms is None

    def pick(self, records: Records) -> Records:
        """The wanted ones among the records, in the same order."""
        if self.everything or not len(records):
            return records
        wanted = np.ones(len(records), np.bool_)
        if self.since_ms is not None or self.until_ms is not None:
            times = records.field("store_timestamp", np.int64)
            if self.since_ms is not None:
                wanted &= times >= self.since_ms
            if self.until_ms is not None:
                wanted &= times < self.until_ms
        if self.topics is not None:
            topics = ragged(records.data, records.topic_at, records.topic_bytes)
            names = pa.array([topic.encode() for topic in self.topics], pa.binary())
            wanted &= pc.is_in(topics, value_set=names).to_numpy(zero_copy_only=False)
        if wanted.all():
            return records
        return Records(records.data, records.base, records.starts[wanted], records.sizes[wanted])


EVERYTHING = Selection()
