"""Whether the tasks found every message that was planned: the last look before a commit."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from aerobee.spark.at_rest.queue_ranges import LOST_NAMED_MAX, report_lost
from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports.damage import DAMAGE_HINT
from aerobee.spark.exports.task import TaskResult
from aerobee.spark.lake.manifest import Gap
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.records.tally import Found

log = logging.getLogger(__name__)

WENT_AWAY = "deleted while they were being exported"


def count_gaps(
    ranges: Sequence[QueueRange],
    results: Iterable[TaskResult],
    unnumbered: Sequence[str] = (),
    *,
    fail: bool,
) -> list[Gap]:
    """What was planned and not found, or DataLost; stores `unnumbered` have no plan by queue.

    What tasks have left out as damaged comes as they have named it. Raises ExportFailed where more
    was found than planned: records that are not their queue's.
    """
    found: dict[BrokerQueue, Found] = {}
    damaged: list[Gap] = []
    for result in results:
        damaged += result.gaps
        for key, seen in result.found.items():
            if key in found:
                found[key].add(seen)
            elif key.broker not in unnumbered:
                found[key] = replace(seen)
    left_out = Counter[BrokerQueue]()
    for gap in damaged:
        left_out[gap.missing.key] += gap.missing.end - gap.missing.start
    lost = []
    for planned in ranges:
        count = planned.end - planned.start - left_out[planned.key]
        if planned.key not in found:
            if count > 0:
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
        elif not seen.ordered and not left_out[planned.key]:
            raise ExportFailed(
                f"{planned}: some of its records say offsets of others: the log is damaged there;"
                f" {DAMAGE_HINT}"
            )
    if found:
        key = min(found)
        raise ExportFailed(
            f"{found[key].rows} messages of {key} were found where another queue's ConsumeQueue"
            " points: it is damaged"
        )
    report_lost(lost, fail=fail)
    if damaged:
        named = "; ".join(map(str, damaged[:LOST_NAMED_MAX]))
        more = (
            f"; and {len(damaged) - LOST_NAMED_MAX} more" if len(damaged) > LOST_NAMED_MAX else ""
        )
        log.warning("damaged messages are left out: %s%s", named, more)
    return [*damaged, *(Gap(each, WENT_AWAY) for each in lost)]


def _missing(planned: QueueRange, seen: Found) -> QueueRange:
    """The smallest range that holds all that is missing."""
    if seen.rows == planned.end - seen.first:
        return QueueRange(planned.key, planned.start, seen.first)
    if seen.rows == seen.last + 1 - planned.start:
        return QueueRange(planned.key, seen.last + 1, planned.end)
    return planned
