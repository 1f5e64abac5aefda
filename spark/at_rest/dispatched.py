"""How far a broker has filled the ConsumeQueues: what the log holds from there on is in none."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aerobee.spark.at_rest.blocks import scan_blocks
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_hints import farthest_end
from aerobee.spark.at_rest.queue_ranges import StoreState, each_queue, queue_dir
from aerobee.spark.offsets import BrokerQueue
from aerobee.storage.layout import ABORT, BOOT_NOTE, CHECKPOINT, CHECKPOINT_FIELDS, MENDING

_QUEUE_POSITION = CHECKPOINT_FIELDS.run("queue_position")
_CHECKPOINT_BYTES = CHECKPOINT_FIELDS.behind("queue_position")
TAIL_BYTES = 1 << 20  # of the log, in which a record is looked for that has its entry


def dispatched_end(state: StoreState) -> int:
    """A log position before which all records have their entries; at most the log's end.

    RocketMQ's brokers write entries in the log's order, so what stands before one that is there has
    its own: it is the end of the farthest, or somewhat before that where there are very many
    queues. Ours keep the newest entries of each queue in memory, and say in `checkpoint` from
    where on: what stands behind that is read in the log.
    """
    found = _noted_by_ours(state)
    if found is not None:
        return min(found, state.end)
    found = farthest_end(state.store.queues_dir, state.end)
    if found is None:  # too many queues to look at each of them, if the log's end tells as well
        found = _by_last_records(state)
    if found is None:
        found = max(each_queue(state, _end_in), default=0)
    return min(found, state.end)


def _noted_by_ours(state: StoreState) -> int | None:
    """Up to where our broker's notes say that entries are in the files; None of a store at rest.

    Nowhere where a queue has yet to be written again, whose file was lost. `checkpoint` counts only
    where one of our brokers runs, or was killed: those of RocketMQ before 5.5 do not say it.
    """
    queues_dir = state.store.queues_dir
    root = Path(queues_dir).parent if queues_dir else None
    if root is None:
        return None
    if (root / MENDING).exists():
        return 0
    if not ((root / BOOT_NOTE).exists() and (root / ABORT).exists()):
        return None
    try:
        data = (root / CHECKPOINT).read_bytes()
    except OSError:
        return 0  # nothing was written out yet
    (position,) = _QUEUE_POSITION.unpack_from(
        data.ljust(_CHECKPOINT_BYTES, b"\0"), CHECKPOINT_FIELDS.at("queue_position")
    )
    return max(0, int(position))


def _by_last_records(state: StoreState) -> int | None:
    """The end of one of the log's last records that has its entry, None where none is found.

    The last one is tried, the one before it, and ever larger steps back from there.
    """
    segment = next((each for each in reversed(state.segments) if each.base < state.end), None)
    if segment is None:
        return None
    with OpenSegment(segment) as file:
        low = max(segment.base, state.end - TAIL_BYTES)
        low = file.find_record(low, state.end)
        if low >= state.end:
            return None
        block = next(scan_blocks(file, low, state.end, block_bytes=2 * TAIL_BYTES))
    records, bad = block.whole(0, None)
    if bad is not None:
        return None
    queue_ids = records.field("queue_id", np.int64)
    offsets = records.field("queue_offset", np.int64)
    row, step = len(records) - 1, 1
    while row >= 0:
        at, length = int(records.topic_at[row]), int(records.topic_bytes[row])
        topic = block.data[at : at + length].tobytes().decode(errors="replace").replace("\0", "?")
        key = BrokerQueue(state.store.label, topic, int(queue_ids[row]))
        start = block.base + int(records.starts[row])
        with ConsumeQueueFiles(queue_dir(state.store, key)) as entries:
            if entries.position(int(offsets[row])) == start:
                return start + int(records.sizes[row])
        row, step = row - step, step * 2
    return None


def _end_in(_: BrokerQueue, entries: ConsumeQueueFiles, state: StoreState) -> int:
    return entries.end_before(state.end)
