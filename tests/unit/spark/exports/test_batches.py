"""Records by topic and day, in the log's order within each."""

from __future__ import annotations

import numpy as np
import pytest
from support.disks.stores import Stored, pack_record

from aerobee.spark.exports.batches import grouped, sorting_order
from aerobee.spark.lake.folders import DAY_MS, Partition
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES
from aerobee.spark.records.tally import QueueTally


def test_records_are_grouped_in_the_logs_order() -> None:
    """By topic and by the UTC day of the store timestamp."""
    messages = [
        Stored(topic="b", store_timestamp=DAY_MS * 3),
        Stored(topic="a", store_timestamp=DAY_MS * 3 - 1),
        Stored(topic="b", store_timestamp=DAY_MS * 4 - 1),
        Stored(topic="a", store_timestamp=DAY_MS * 3),
    ]
    raw = [pack_record(message, 0, 0) for message in messages]
    sizes = np.array([len(record) for record in raw])
    data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
    records = Records(data, 0, np.cumsum(sizes) - sizes, sizes)
    found = {partition: rows.tolist() for partition, rows in grouped(records, QueueTally("b"))}
    assert found == {Partition("b", 3): [0, 2], Partition("a", 2): [1], Partition("a", 3): [3]}


@pytest.mark.parametrize("numbers", [[], [3, 1, 3, 0, 1], [70_000, 1, 4464, 1], [-70_000, -1, 2]])
def test_rows_are_sorted_and_equal_ones_stay_as_they_are(numbers: list[int]) -> None:
    """Small numbers or wild ones."""
    found = sorting_order(np.array(numbers, np.int64)).tolist()
    assert found == sorted(range(len(numbers)), key=numbers.__getitem__)
