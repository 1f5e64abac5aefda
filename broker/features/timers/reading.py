"""Reading a slot: its units from the timer log, before its second begins.

Where there are not as many units as the slot counts, up to its first one, or one leads to no
message, bits have flipped: then the timers' queue is swept for what else waits for that second.
"""

import logging
from functools import partial
from typing import Final

from aerobee.broker.features.timers.intake import due_of
from aerobee.broker.features.timers.records import WaitingRecords
from aerobee.broker.features.timers.second import DueSecond
from aerobee.broker.features.timers.times import due_ms
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.storage.features.timers.codecs import DELETE, PRECISION_MS, ROLL, Unit
from aerobee.storage.features.timers.index import TimerIndex
from aerobee.storage.features.timers.marks import marked_offset

log = logging.getLogger(__name__)

READ_UNITS: Final = 500  # of a slot, per turn
SWEPT_MESSAGES: Final = 50  # of the timers' queue, per turn: a millisecond or two
LEAD_MS: Final = 1500  # so long before its second a slot is read
AHEAD_SECONDS: Final = 3  # of those that have something to deliver
PENDING_MAX: Final = 100_000  # in a second that is not done: the next one is not read before
_SWEPT: Final = 0  # magic of what is no unit of the timer log: only the record says what it is


class SlotReader:
    """Brings what waits for a second into memory, a step at a time."""

    def __init__(self, index: TimerIndex, records: WaitingRecords) -> None:
        self._index = index
        self._records = records

    def begin(self, time_s: int) -> DueSecond:
        """Return a second of which nothing has been read."""
        slot = self._index.wheel.slot(time_s)
        missing = None if slot is None or slot.magic else slot.count
        return DueSecond(time_s, self._index.chain(time_s), missing)

    def near_ms(self, time_s: int) -> int:
        """Return when a slot is to be read: the one that is not done yet at once.

        Where the clock was set back it holds what is due before its own second.
        """
        return 0 if time_s == self._index.read_s else time_s * PRECISION_MS - LEAD_MS

    def read_near(self, seconds: dict[int, DueSecond], now_ms: int) -> bool:
        """Read a step of a slot whose second is near; False where none is to be read.

        `seconds` has those that were begun. Raises ColdRecord.
        """
        time_s, before, swept = self._index.read_s, None, None
        ahead = 0
        while ahead < AHEAD_SECONDS:
            found = self._index.wheel.next_used(time_s)
            if found is None or (self.near_ms(found) > now_ms):
                break
            if before is not None and before.pending > PENDING_MAX:
                break
            second = seconds.get(found)
            if second is None:
                second = seconds[found] = self.begin(found)
            if second.is_swept and not second.is_read:
                swept = swept or second  # takes longest: what is on time comes first
            elif not second.is_read:
                self.read(second)
                return True
            ahead += swept is None or second.pending > 0
            before, time_s = second, found + 1
        if swept is not None:
            self.read(swept)
        return swept is not None

    def read(self, second: DueSecond) -> None:
        """Read a step. Raises ColdRecord; what was not read is read by the next step."""
        count = SWEPT_MESSAGES if second.is_swept else READ_UNITS
        second.read(count, partial(self._take, second))
        if second.is_read and second.is_doubted:
            self.doubt(second)

    def doubt(self, second: DueSecond) -> None:
        """Read a second by the timers' queue, too, once: its slot does not lead to all of it.

        Where its chain breaks off, what is missing is older than what is known, and takes none of
        that back: that is delivered meanwhile. Where it does not, the slot may begin too early.
        """
        if not second.is_swept:
            log.error("timer_slot_damaged second=%d missing=%s", second.time_s, second.missing)
            chain = self._index.chain(second.time_s)
            second.known = {unit.position for unit in chain}
            known = not chain.is_whole or second.missing == 0
            second.sweep(map(_swept, self._index.queued(second.time_s)), known=known)

    def _take(self, second: DueSecond, unit: Unit) -> None:
        """Take a unit of a slot into memory; what only its record says is looked up there."""
        if unit.magic == _SWEPT:
            return self._look(second, unit.position)
        if unit.magic & ROLL:
            second.rolls.add(unit.position)
            second.found((second.time_s + 1) * PRECISION_MS, unit.position)
        elif unit.magic & DELETE:
            self._take_delete(second, unit.position)
        elif second.may_be(unit.due_ms):
            second.found(unit.due_ms, unit.position)
        elif (record := self._records.get(unit.position)) is not None:
            second.found(due_of(record), unit.position)
        if second.missing is not None and not second.is_swept:
            second.missing -= -1 if unit.magic & DELETE else 1

    def _take_delete(self, second: DueSecond, position: int) -> None:
        if (record := self._records.get(position)) is not None:
            properties = parse_properties(record.properties)
            if (key := properties.get(Property.TIMER_DEL_UNIQKEY)) is not None:
                second.unwanted(key, properties.get(Property.REAL_TOPIC, ""))
            else:  # a flipped bit says that it does
                second.found(due_of(record), position)

    def _look(self, second: DueSecond, position: int) -> None:
        """Take a message of the timers' queue that waits for this second and is not known yet."""
        if (record := self._records.get(position)) is None:
            return
        properties = parse_properties(record.properties)
        if (before := marked_offset(record.properties)) is not None:
            second.rolled.add(before)
        if record.queue_offset in second.rolled or position in second.known:
            return
        try:
            out, due = due_ms(properties, record.store_timestamp)
        except ValueError:
            return
        if out // PRECISION_MS != second.time_s:
            return
        if (key := properties.get(Property.TIMER_DEL_UNIQKEY)) is not None:
            second.unwanted(key, properties.get(Property.REAL_TOPIC, ""))
        else:
            second.found(due, position)


def _swept(place: tuple[int, int]) -> Unit:
    position, size = place
    return Unit(-1, _SWEPT, 0, 0, position, size)
