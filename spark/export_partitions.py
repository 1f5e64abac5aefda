"""The folders of an export: a topic's messages of one day, named as Hive, Spark and pyarrow do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from aerobee.spark.cells import ragged, text
from aerobee.spark.layout import Ints, Records

DAY_MS = 86_400_000
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^" + "".join(map(chr, range(1, 32))))


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One folder of the export: a topic's messages of one day (UTC, by store timestamp)."""

    topic: str
    day: int  # since 1970-01-01

    @property
    def folder(self) -> str:
        """The folder below the export's, as Hive, Spark and pyarrow read partitions back."""
        return f"topic={escape_path(self.topic)}/date={day_text(self.day)}"


def escape_path(name: str) -> str:
    """A partition value as a folder name, by the rules of Hive's FileUtils.escapePathName."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def day_text(day: int) -> str:
    """A day since 1970 as an ISO date; days outside the calendar become its ends."""
    low, high = (limit.toordinal() for limit in (date.min, date.max))
    epoch = date(1970, 1, 1).toordinal()
    return (date.min + timedelta(min(max(epoch + day, low), high) - low)).isoformat()


def sorting_order(numbers: Ints) -> Ints:
    """The rows in the order of their numbers, equal ones as they stand; quick for small numbers."""
    small = np.iinfo(np.int16)  # which numpy sorts digit by digit
    few = small.min <= numbers.min(initial=0) and numbers.max(initial=0) <= small.max
    order: Ints = np.argsort(numbers.astype(np.int16) if few else numbers, kind="stable")
    return order


def group(records: Records) -> Iterator[tuple[Partition, Ints]]:
    """The partitions among the records and the rows of each, in the log's order."""
    topics = text(ragged(records.data, records.topic_at, records.topic_bytes))
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    days = records.field("store_timestamp", np.int64) // DAY_MS
    codes = encoded.indices.to_numpy().astype(np.int64)
    if days[0] == days.min() == days.max():  # as nearly always
        days = days[:1]
    else:
        days, day_codes = np.unique(days, return_inverse=True)
        codes = codes * len(days) + day_codes
    order = sorting_order(codes)
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        topic, day = divmod(int(codes[rows[0]]), len(days))
        yield Partition(names[topic], int(days[day])), rows
