"""What an export cannot have any more: what went away before or under it, and how that is told.

A topic's records stay in the log when the topic is deleted. So the log from where the lake has all
of a queue on tells how many messages are lost; only where retention was there too nobody knows.
Tasks read entries by their numbers, and a topic that was deleted and made again has such, too: so
queues are looked at once more before what was read of them counts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import LOST_NAMED_MAX, StoreState, queue_dir
from aerobee.spark.at_rest.stores import Paths, Store, would_find
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.spark.lake.manifest import Gap, Manifest
from aerobee.spark.lost.reasons import ANOTHER, DELETED, UNCOUNTED
from aerobee.spark.lost.stamps import ELSEWHERE, UNKNOWN, LogStamps
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.planning.log_pieces import PIECE_BYTES_MAX, log_pieces
from aerobee.spark.reading.pieces import piece_records
from aerobee.spark.records.damage import DROPMALFORMED, DamagePolicy
from aerobee.spark.records.selection import Limits, Selection
from aerobee.spark.records.tally import QueueTally
from aerobee.spark.topics import TopicChoice

log = logging.getLogger(__name__)

SEARCHED_BYTES_MAX = 64 << 30  # of a log: a minute on one core


def stores_away(
    path: Paths, found: Collection[StoreState], base: Manifest, *, fail: bool
) -> tuple[str, ...]:
    """The stores of `base`, by label, that a pattern in `path` would find if they were there.

    Those too that are there and whose log has become empty: what a disk was mounted on. Raises
    StoreUnreadable where there are any, or warns.
    """
    there = {state.store.label for state in found}
    exported = {key.broker for key, offset in base.offsets.items() if offset}
    emptied = {
        state.store.label: f"{state.store.log_dir}, which is empty"
        for state in found
        if state.end <= state.start and state.store.label in exported
    }
    away = emptied | {
        label: log_dir
        for label, log_dir in base.stores.items()
        if label not in there and would_find(path, label, log_dir)
    }
    if not away:
        return ()
    named = ", ".join(f"{label} ({away[label]})" for label in sorted(away))
    text = (
        f"option path: stores that were exported before are not there: {named}; is a disk not"
        " mounted? What their brokers delete meanwhile will be lost"
    )
    if fail:
        raise StoreUnreadable(
            f"{text}. --no-fail-on-data-loss (fail_on_data_loss=False) goes on without them; name"
            " stores one by one (name=path) where others are exported from other machines"
        )
    log.warning("%s; going on without", text)
    return tuple(sorted(away))


def tell_gaps(gaps: Sequence[Gap], *, fail: bool) -> None:
    """Raise DataLost with what is gone, or warn of it."""
    if not gaps:
        return
    named = "; ".join(map(str, gaps[:LOST_NAMED_MAX]))
    more = f"; and {len(gaps) - LOST_NAMED_MAX} more queues" if len(gaps) > LOST_NAMED_MAX else ""
    what = " and ".join(_kinds(gaps))
    if fail:
        hint = "--no-fail-on-data-loss (fail_on_data_loss=False) notes this and goes on"
        if any(gap.reason in ANOTHER for gap in gaps):
            hint += "; a store that was made anew may also get another name (name=path)"
        raise DataLost(f"{what}: {named}{more}. {hint}")
    log.warning("%s: %s%s; going on without", what, named, more)


def _kinds(gaps: Sequence[Gap]) -> list[str]:
    other = sum(gap.reason in ANOTHER for gap in gaps)
    deleted = sum(gap.reason == UNCOUNTED for gap in gaps)
    gone = [gap.missing for gap in gaps if gap.reason not in ANOTHER and gap.reason != UNCOUNTED]
    kinds = []
    if gone:
        count = sum(each.end - each.start for each in gone)
        kinds.append(f"{count} messages of {len(gone)} queues are lost to the export")
    if deleted:
        kinds.append(f"{deleted} queues were deleted, perhaps with messages of their own")
    if other:
        kinds.append(f"{other} queues are not the ones that were exported before")
    return kinds


def deleted_gaps(
    state: StoreState, base: Manifest, keys: Collection[BrokerQueue], same_to: int
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


def _exported_to(base: Manifest, key: BrokerQueue, same_to: int) -> int:
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


def _rows_behind(
    state: StoreState, exported: Mapping[BrokerQueue, int]
) -> dict[BrokerQueue, int] | None:
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
            for records in piece_records(piece, selection, DamagePolicy(DROPMALFORMED)):
                tally.topic_numbers(records)
    except DataLost as error:  # retention is at work
        log.warning("%s", error)
        return None
    return {key: found.rows for key, found in tally.found().items() if key in exported}


def remade(
    store: Store, ranges: Iterable[QueueRange], positions: Offsets, stamps: Offsets
) -> list[BrokerQueue]:
    """The queues of which the last message is another one now than when it was planned.

    `positions` and `stamps` are of that time. One that is gone with its folder, or was taken by
    retention, is none of them: what was read of it was its own. Raises StoreUnreadable.
    """
    found: list[BrokerQueue] = []
    with LogStamps(StoreState.look(store)) as log:
        for planned in ranges:
            position = positions.get(planned.key, UNKNOWN)
            stamp = stamps.get(planned.key, UNKNOWN)
            if position < 0:
                continue
            there = _position(store, planned)
            if there is not None and (there != position or _differ(log.at(position), stamp)):
                found.append(planned.key)
    return found


def _differ(stamp: int, other: int) -> bool:
    return stamp != other and UNKNOWN not in (stamp, other)


def _position(store: Store, planned: QueueRange) -> int | None:
    """Where the last message of a range stands, NOWHERE where its queue ends before."""
    with ConsumeQueueFiles(queue_dir(store, planned.key)) as entries:
        if entries.end == entries.first:
            return None
        there = entries.position(planned.end - 1)
    return there if there >= 0 else None
