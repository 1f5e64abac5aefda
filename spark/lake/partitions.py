"""The folders of an export: a topic's messages of one day, named as Hive, Spark and pyarrow do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from aerobee.spark.lake.folders import topic_folder
from aerobee.spark.records.headers import Ints, Records
from aerobee.spark.records.tally import QueueTally

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One folder of the export: a topic's messages of one day (UTC, by store timestamp)."""

    topic: str
    day: int  # since 1970-01-01

    @property
    def folder(self) -> str:
        """The folder below the export's, as Hive, Spark and pyarrow read partitions back."""
        return f"{topic_folder(self.topic)}/date={day_text(self.day)}"


def day_text(day: int) -> str:
    """A day since 1970 as an ISO date; days outside the calendar become its ends."""
    low, high = (limit.toordinal() for limit in (date.min, date.max))
    epoch = date(1970, 1, 1).toordinal()
    return (date.min + timedelta(min(max(epoch + day, low), high) - low)).isoformat()


def sorting_order(numbers: npt.NDArray[Any]) -> Ints:
    """The rows in the order of their numbers, equal ones as they stand; quick for small numbers."""
    small = np.iinfo(np.int16)  # which numpy sorts digit by digit
    few = small.min <= numbers.min(initial=0) and numbers.max(initial=0) <= small.max
    order: Ints = np.argsort(numbers.astype(np.int16) if few else numbers, kind="stable")
    return order


def group(
    records: Records,
    tally: QueueTally,
    tell_unwanted: Callable[[Records, Ints], None] | None = None,
) -> Iterator[tuple[Partition, Ints]]:
    """The partitions among the wanted records and the rows of each, in the log's order."""
    codes = tally.topic_numbers(records)
    times = records.field("store_timestamp", np.int64)
    days = np.array([times.min(), times.max()]) // DAY_MS
    if days[0] == days[1]:  # as nearly always
        days = days[:1]
    else:
        days, day_codes = np.unique(times // DAY_MS, return_inverse=True)
        codes = codes.astype(np.int64) * len(days) + day_codes
    order = sorting_order(codes)
    codes = codes[order]
    unwanted = int(np.searchsorted(codes, 0))
    if unwanted and tell_unwanted is not None:
        tell_unwanted(records, order[:unwanted])
    order, codes = order[unwanted:], codes[unwanted:]
    if not len(order):
        return
    topics = tally.topics
    for rows in np.split(order, np.flatnonzero(np.diff(codes)) + 1):
        topic, day = divmod(int(codes[0]), len(days))
        codes = codes[len(rows) :]
        yield Partition(topics[topic], int(days[day])), rows
