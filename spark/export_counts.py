"""Whether the tasks found every message that was planned: the last look before a commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aerobee.spark.errors import ExportFailed
from aerobee.spark.export_task import TaskResult
from aerobee.spark.manifest import Gap
from aerobee.spark.offsets import QueueKey, QueueRange
from aerobee.spark.queue_ranges import report_lost
from aerobee.spark.queue_tally import Found

WENT_AWAY = "deleted while they were being exported"


def count_gaps(
    ranges: Sequence[QueueRange],
    results: Iterable[TaskResult],
    unnumbered: Sequence[str] = (),
    *,
    fail: bool,
) -> list[Gap]:
    """What was planned and not found, or DataLost; stores `unnumbered` have no plan by queue.

    Raises ExportFailed where more was found than planned: records that are not their queue's.
    """
    found: dict[QueueKey, Found] = {}
    for result in results:
        for key, seen in result.found.items():
            if key in found:
                found[key].add(seen)
            elif key.broker not in unnumbered:
                found[key] = Found(seen.rows, seen.first, seen.last)
    lost = []
    for planned in ranges:
        count = planned.end - planned.start
        if planned.key not in found:
            lost.append(planned)
            continue
        seen = found.pop(planned.key)
        if seen.rows > count or seen.first < planned.start or seen.last >= planned.end:
            raise ExportFailed(
                f"queue {planned.key}: {seen.rows} messages with offsets from {seen.first} to"
                f" {seen.last} were found where {planned} was planned; its ConsumeQueue is damaged"
            )
        elif seen.rows < count:
            lost.append(_missing(planned, seen))
    if found:
        key = min(found)
        raise ExportFailed(
            f"{found[key].rows} messages of {key} were found where another queue's ConsumeQueue"
            " points: it is damaged"
        )
    report_lost(lost, fail=fail)
    return [Gap(each, WENT_AWAY) for each in lost]


def _missing(planned: QueueRange, seen: Found) -> QueueRange:
    """The smallest range that holds all that is missing."""
    if seen.rows == planned.end - seen.first:
        return QueueRange(planned.key, planned.start, seen.first)
    if seen.rows == seen.last + 1 - planned.start:
        return QueueRange(planned.key, seen.last + 1, planned.end)
    return planned
