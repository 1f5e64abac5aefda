"""Reading a slot: its units from the timer log, before its second begins."""

from functools import partial
from typing import Final

from aerobee.broker.features.timers.intake import due_of
from aerobee.broker.features.timers.records import WaitingRecords
from aerobee.broker.features.timers.second import DueSecond
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.storage.features.timers.codecs import DELETE, PRECISION_MS, ROLL, Unit
from aerobee.storage.features.timers.index import TimerIndex

READ_UNITS: Final = 500  # of a slot, per turn


class SlotReader:
    """Brings what waits for a second into memory, a step at a time."""

    def __init__(self, index: TimerIndex, records: WaitingRecords) -> None:
        self._index = index
        self._records = records

    def begin(self, time_s: int) -> DueSecond:
        """Return a second of which nothing has been read."""
        return DueSecond(time_s, self._index.chain(time_s))

    def read(self, second: DueSecond) -> None:
        """Read a step. Raises ColdRecord; what was not read is read by the next step."""
        second.read(READ_UNITS, partial(self._take, second))

    def _take(self, second: DueSecond, unit: Unit) -> None:
        """Take a unit of a slot into memory; what only its record says is looked up there."""
        if unit.magic & ROLL:
            second.rolls.add(unit.position)
            second.found((second.time_s + 1) * PRECISION_MS, unit.position)
        elif unit.magic & DELETE:
            if (record := self._records.get(unit.position)) is not None:
                properties = parse_properties(record.properties)
                if (key := properties.get(Property.TIMER_DEL_UNIQKEY)) is not None:
                    second.unwanted(key, properties.get(Property.REAL_TOPIC, ""))
        elif second.may_be(unit.due_ms):
            second.found(unit.due_ms, unit.position)
        elif (record := self._records.get(unit.position)) is not None:
            second.found(due_of(record), unit.position)
