"""The verifier's look at batch queues: units and entries say the same."""

from collections.abc import Iterator

from aerobee.storage.layout import BATCH_UNITS, queue_names
from aerobee.storage.parts import StoreParts
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles


def problems_of_units(parts: StoreParts) -> Iterator[str]:
    """Yield where a unit and the entries of its messages differ; units may be behind."""
    for topic, queue_id in queue_names(parts.settings.root, BATCH_UNITS):
        queue = parts.queues.find(topic, queue_id)
        if queue is None:
            continue
        for number, unit in UnitFiles(parts.files, parts.settings.root, topic, queue_id).read():
            for offset in (unit.first_offset, unit.end - 1):
                if not queue.min_offset <= offset < queue.max_offset:
                    continue
                if (place := queue.place_of(offset)) != (unit.position, unit.size):
                    yield (
                        f"{topic}-{queue_id} offset {offset}: unit {number} says {unit.size} bytes"
                        f" at {unit.position}, the entry {place[1]} bytes at {place[0]}"
                    )
                    break
