"""What another broker has written to a batch queue becomes entries of ours, before a recovery."""

import logging
from collections.abc import Iterable
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import BATCH_UNITS, queue_names
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles
from aerobee.storage.recovery.batch_units.units import BatchUnit
from aerobee.storage.recovery.mending import record_of

log = logging.getLogger(__name__)

NEWEST_FILES: Final = 3
_NOTHING: Final = (-1, -1)


def take_units(parts: StoreParts) -> StoreParts:
    """Add entries for units that go further than our entries do; return the parts.

    Where the newest of our entries contradict the units, another broker has written the log anew
    since: all entries are made again from the units. Recovery holds both against the log.
    """
    for topic, queue_id in list(queue_names(parts.settings.root, BATCH_UNITS)):
        if not parts.queues.is_batched(topic):
            log.warning("batch_units_left topic=%s queue=%d reason='its topic is of another"
                        " queue.type'", topic, queue_id)  # fmt: skip
            continue
        try:
            _take(parts, UnitFiles(parts.files, parts.settings.root, topic, queue_id))
        except OSError as error:  # what they say stands in the log
            log.error("batch_units_not_read topic=%s queue=%d error=%s", topic, queue_id, error)
    return parts


def _take(parts: StoreParts, units: UnitFiles) -> None:
    begin = parts.queues.deleted.before(units.topic)
    queue = parts.queues.find(units.topic, units.queue_id)
    if queue is None:
        if not any(unit.position >= begin for _, unit in units.read()):
            if parts.write:  # a kill has left them of a topic that was deleted
                units.remove()
            return
        queue = parts.queues.get(units.topic, units.queue_id)
    if queue.max_offset > queue.min_offset:
        newest = [unit for _, unit in units.read(units.newest(NEWEST_FILES))]
        if not newest:
            return
        if _agrees(queue, newest):
            if newest[-1].end <= queue.max_offset:
                return
            if newest[0].first_offset <= queue.max_offset:
                _add(parts, queue, newest, begin)
                return
        elif _has_record(parts, queue):
            return  # it is the units that are damaged: they are written again
        log.warning("batch_entries_anew queue=%s", queue.directory)
        if parts.write:
            queue.truncate(0)
            parts.queues.remove_files(queue)
        queue.start_at(0)
    _add(parts, queue, (unit for _, unit in units.read()), begin)


def _agrees(queue: ConsumeQueue, newest: list[BatchUnit]) -> bool:
    """Whether the newest message that both know is in the same place for both."""
    offset = min(queue.max_offset, newest[-1].end) - 1
    if offset < queue.min_offset:
        return False
    place = next((u[:2] for u in newest if u.first_offset <= offset < u.end), _NOTHING)
    return queue.place_of(offset) == place


def _has_record(parts: StoreParts, queue: ConsumeQueue) -> bool:
    """Whether the log has what the newest entry names."""
    offset = queue.max_offset - 1
    return record_of(parts.segments, queue, offset, *queue.place_of(offset))


def _add(parts: StoreParts, queue: ConsumeQueue, units: Iterable[BatchUnit], begin: int) -> None:
    put = queue.put if parts.write else queue.put_in_memory
    for unit in units:
        if unit.end <= queue.max_offset or unit.position < begin:
            continue
        if queue.max_offset == queue.min_offset and unit.first_offset > queue.max_offset:
            queue.start_at(unit.first_offset)
        while queue.max_offset < unit.first_offset:  # see BatchUnit.follows
            put(queue.max_offset, 0, BLANK_SIZE, 0)
        for offset in range(queue.max_offset, unit.end):
            put(offset, unit.position, unit.size, unit.tags_code)
