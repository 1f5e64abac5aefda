"""Queues that an export knows and a store has no more: what of them was never exported.

A topic's records stay in the log when the topic is deleted. So the log from where the lake has all
of a queue on tells how many messages are lost; only where retention was there too nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.errors import DataLost
from aerobee.spark.lake.manifest import Gap, Manifest
from aerobee.spark.lost.reasons import DELETED, UNCOUNTED
from aerobee.spark.lost.stamps import ELSEWHERE
from aerobee.spark.offsets import QueueKey, QueueRange
from aerobee.spark.planning.log_pieces import PIECE_BYTES_MAX, log_pieces
from aerobee.spark.reading.pieces import piece_records
from aerobee.spark.records.damage import DROPMALFORMED, Damage
from aerobee.spark.records.selection import Limits, Selection
from aerobee.spark.records.tally import QueueTally
from aerobee.spark.topics import TopicChoice

log = logging.getLogger(__name__)

SEARCHED_BYTES_MAX = 64 << 30  # of a log: a minute on one core


def deleted_gaps(
    state: StoreState, base: Manifest, keys: Collection[QueueKey], same_to: int
) -> list[Gap]:
    """What `base` has not of queues without a folder; none of those that were exported to the end.

    `same_to` is the last log position up to which the log is certainly the one that was exported.
    """
    exported = {key: _exported_to(base, key, same_to) for key in keys}
    countable = {key: at for key, at in exported.items() if at >= state.start}
    rows = _rows_behind(state, countable)
    gaps = []
    for key in sorted(keys):
        offset = base.offsets[key]
        count = rows.get(key, 0) if rows is not None and key in countable else None
        if count is None:
            gaps.append(Gap(QueueRange(key, offset, offset), UNCOUNTED))
        elif count:
            gaps.append(Gap(QueueRange(key, offset, offset + count), DELETED))
    return gaps


def _exported_to(base: Manifest, key: QueueKey, same_to: int) -> int:
    """A log position before which the lake has all of a queue, -1 where none is known."""
    known = [min(base.covered.get(key.broker, -1), same_to + 1)]
    position = base.positions.get(key, -1)
    if position == ELSEWHERE:
        return -1  # and `covered` is of that log
    if 0 <= position <= same_to:
        known.append(position + 1)
    elif not base.offsets[key]:
        known.append(0)
    return max(known) if same_to >= 0 else -1


def _rows_behind(state: StoreState, exported: Mapping[QueueKey, int]) -> dict[QueueKey, int] | None:
    """How many messages of each queue the log has behind a position; None if it is too long."""
    if not exported:
        return {}
    start = min(exported.values())
    if state.end - start > SEARCHED_BYTES_MAX:
        return None
    topics = frozenset(key.topic for key in exported)
    selection = Selection(choice=TopicChoice(names=topics), positions=Limits(low=start))
    tally = QueueTally(next(iter(exported)).broker)
    try:
        for piece in log_pieces(state, state.segments, selection, PIECE_BYTES_MAX):
            # without its queues: they would hide what has none
            for records in piece_records(piece, None, selection, Damage(DROPMALFORMED)):
                tally.topic_numbers(records)
    except DataLost as error:  # retention is at work
        log.warning("%s", error)
        return None
    return {key: found.rows for key, found in tally.found().items() if key in exported}
