"""Delivers messages when they are due, to the millisecond (TimerMessageStore).

There is one timer for all, and none while nothing waits: it fires when the next message is due,
when the next second's slot is to be read, and once a second to look at the clock. A slot is read
shortly before its second begins, in steps; what comes for one that is read is put there at once.
What is due is stored in slices, one for each turn of the loop, and each message exactly once:
`storage.features.timers` says how.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.features.timers.counts import PassedMessages, TimingCounts
from aerobee.broker.features.timers.intake import as_waiting, waiting
from aerobee.broker.features.timers.outgoing import (
    DueMessages,
    Undeliverable,
    count_of,
    key_of,
    topic_of,
)
from aerobee.broker.features.timers.reading import SlotReader
from aerobee.broker.features.timers.records import ColdRecord, WaitingRecords
from aerobee.broker.features.timers.second import DueSecond
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.errors import LogBusy, StoreError
from aerobee.storage.features.timers.codecs import PRECISION_MS
from aerobee.storage.features.timers.index import TimerIndex, Waiting

log = logging.getLogger(__name__)

SLICE_MESSAGES: Final = 100  # per turn of the loop, some milliseconds
SLICE_BYTES: Final = 1 << 20
TAKEN_IN: Final = 100  # messages of the queue that have no slot yet, per turn
LOOK_INTERVAL_MS: Final = 1000  # while messages wait: the clock may be set
FETCH_WAIT_MS: Final = 500  # at most, for what has to come from the disk first
BUSY_WAIT_MS: Final = 20  # until a log is tried again that prepares its space
REFUSED_WAIT_MS: Final = 1000  # ... that refuses


class TimerCall(Protocol):
    """What `call_later` of a loop returns."""

    def cancel(self) -> object:
        """Forget the call."""


class TimeSource(msgspec.Struct, frozen=True):
    """The wall clock that records carry, and the `call_later` of an event loop."""

    now_ms: Callable[[], int]
    call_later: Callable[[float, Callable[[], None]], TimerCall]


class TimerService:
    """Takes messages into their slots and stores them in their own topic once they are due.

    `settings` says what is in force; `on_refused` hears what the store did not take.
    """

    def __init__(
        self,
        writing: Writing,
        settings: Callable[[], BrokerSettings],
        time: TimeSource,
        cold_reads: ColdReads | None = None,
        on_refused: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        keys = settings()
        self._store = store = writing.store
        self._settings = settings
        self.now_ms = time.now_ms
        self._call_later = time.call_later
        self._records = WaitingRecords(store, cold_reads, self._go_on)
        self._on_refused = on_refused
        self._refused = False
        self._tick = writing.tick
        self._queues = writing.queues
        self._outgoing = DueMessages(writing, time.now_ms)
        self.index = TimerIndex(store, keys.mapped_file_size_timer_log, keys.timer_roll_window_slot)
        self._reading = SlotReader(self.index, self._records)
        self.counts = TimingCounts(time.now_ms)
        self._seconds: dict[int, DueSecond] = {}
        self._timer: TimerCall | None = None
        self._wake_ms = 0
        self._held: TimerCall | None = None  # until the time after the start is over
        self._stopped = True
        self._first_in = 0  # messages before this offset come into their slots first of all
        self.on_changed: Callable[[], None] = lambda: None  # there is something to write
        self.passed = PassedMessages(time.now_ms())

    def start(self) -> None:
        """Deliver what is due, and wait for the rest; the index has been recovered."""
        if self._store.read_only:
            return
        self._stopped = False
        if (held_ms := self._settings().disappear_time_after_start) > 0:
            self._held = self._call_later(held_ms / 1000, self._release)
        self.look_again()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._stopped = True
        self._cancel()
        if self._held is not None:
            self._held.cancel()

    def _go_on(self) -> None:
        """Do the next step at once, if there is one to do."""
        if self._timer is not None:
            self._schedule(0)

    def half_delivered(self) -> list[DueSecond]:
        """Return the seconds of which a part has been delivered, and that are not done.

        More than one only while one is being swept.
        """
        return [each for _, each in sorted(self._seconds.items()) if each.was_delivered]

    def look_again(self) -> None:
        """Take settings that were changed; what has no slot yet comes in before more goes out."""
        if self.index.used:
            self._first_in = self.index.next_offset + self.index.behind
            self._schedule(0)

    def arrived(self, due: int, properties: dict[str, str]) -> None:
        """Take a message in that was appended to the timers' queue, before it is committed."""
        index, now_ms = self.index, self.now_ms()
        index.begin(now_ms // PRECISION_MS)
        queue = self._queues.get(TIMER_TOPIC, 0).stored
        offset = queue.max_offset - 1
        if offset != index.next_offset or self._settings().timer_stop_enqueue:
            return self._schedule(0)  # others come first
        position, size, _ = queue.entry(offset)
        self._take(*as_waiting(offset, position, size, due, properties), now_ms)

    def _take(self, message: Waiting, key: str | None, topic: str, now_ms: int) -> None:
        """Put a message into its slot, and into its second if that is read."""
        try:
            time_s = self.index.add(message, now_ms // PRECISION_MS)
        except LookupError:  # what is before it may be held back, for long
            return self._wake_at(now_ms + LOOK_INTERVAL_MS)
        self.on_changed()
        if time_s is None:
            return
        self.passed.taken(topic, message.due_ms, now_ms)
        self.counts.add(topic, -1 if message.is_delete else 1)
        at_ms = time_s * PRECISION_MS
        second = self._seconds.get(time_s)
        if second is None:
            return self._wake_at(self._reading.near_ms(time_s))
        rolled = time_s < message.out_s
        if key is not None and not rolled:
            return second.unwanted(key, topic)
        due = at_ms + PRECISION_MS if rolled else message.due_ms
        if rolled:
            second.rolls.add(message.position)
        second.arrived(due, message.position)
        self._wake_at(due)

    def _wake_at(self, at_ms: int) -> None:
        if self._timer is None or at_ms < self._wake_ms:
            self._schedule(at_ms - self.now_ms())

    def _schedule(self, wait_ms: int) -> None:
        """Wake up in that time, or a little earlier to look at the clock."""
        if self._stopped:
            return
        self._cancel()
        wait_ms = max(0, min(wait_ms, LOOK_INTERVAL_MS))
        self._wake_ms = self.now_ms() + wait_ms
        self._timer = self._call_later(wait_ms / 1000, self._wake)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        """Do one step of everything, and wait for what comes next."""
        self._timer = None
        wait_ms: int | None = REFUSED_WAIT_MS
        try:
            wait_ms = self._step()
        except ColdRecord:
            wait_ms = FETCH_WAIT_MS
        except Exception:  # no memory, say: what was not done is looked at again
            log.exception("timers_failed")
        if wait_ms is not None:
            due_ms = self.now_ms() + wait_ms
            if self._timer is None or due_ms < self._wake_ms:
                self._schedule(wait_ms)

    def _step(self) -> int | None:
        """Take in, deliver, read; return after how many ms to come back, None: nothing waits."""
        self._records.look_again()
        more = self._take_in()
        if more and self.index.next_offset < self._first_in:
            return 0  # one of the others may take back what is due
        now_ms = self.now_ms()
        self._move_on(now_ms)
        wait_ms = self._deliver_due(now_ms)
        if wait_ms == 0:
            return 0
        try:
            if self._reading.read_near(self._seconds, now_ms) or more:
                return 0
        except ColdRecord:  # what is due meanwhile does not wait for the disk
            return FETCH_WAIT_MS if wait_ms is None else min(wait_ms, FETCH_WAIT_MS)
        if wait_ms is None and self.index.behind:
            return LOOK_INTERVAL_MS
        return wait_ms

    def _deliver_due(self, now_ms: int) -> int | None:
        """Deliver a slice of the first second; return when there is more, None: nothing waits.

        Behind one that is being swept the next ones come, too, at their time.
        """
        used, is_first = self.index.wheel.next_used, True
        time_s = used(self.index.read_s)
        waits_ms: list[int] = []
        while time_s is not None:
            second = self._seconds.get(time_s)
            if second is None or not (second.is_read or second.is_swept):
                near_ms = max(1, self._reading.near_ms(time_s) - now_ms)
                waits_ms.append(near_ms if second is None else LOOK_INTERVAL_MS)
                break
            wait_ms = None
            if second.is_open:
                if self._held is not None or self._settings().timer_stop_dequeue:
                    return LOOK_INTERVAL_MS
                wait_ms = self._deliver(second, now_ms)
            is_first = is_first and second.is_read
            following = used(time_s + 1)
            if wait_ms is not None or is_first:
                after_ms = max(0, (time_s + 1) * PRECISION_MS - now_ms)
                waits_ms.append(after_ms if wait_ms is None else wait_ms)
                if following is not None and following not in self._seconds:
                    waits_ms.append(max(1, self._reading.near_ms(following) - now_ms))
                break
            time_s = following
        return min(waits_ms, default=None if is_first else LOOK_INTERVAL_MS)

    def _release(self) -> None:
        self._held = None
        self.look_again()

    def _move_on(self, now_ms: int) -> None:
        """Leave the seconds behind that have nothing more."""
        index, now_s = self.index, now_ms // PRECISION_MS
        while True:
            first_s = index.wheel.next_used(index.read_s)
            second = None if first_s is None else self._seconds.get(first_s)
            to_s = now_s if first_s is None else min(first_s, now_s)
            if to_s > index.read_s:
                self._advance(to_s)
                if index.aged:
                    self.on_changed()
            if first_s is None or second is None or second.pending or not second.is_read:
                return
            if now_s <= first_s or index.read_s != first_s:
                return
            for topic in second.counted_off():
                self.counts.leave(topic, -1)
            del self._seconds[first_s]
            following = index.wheel.next_used(first_s + 1)
            self._advance(now_s if following is None else min(following, now_s))
            self.on_changed()

    def _advance(self, to_s: int) -> None:
        """Take what is before a second as done; of others some may have been delivered already."""
        begun = [
            each.begun_at
            for time_s, each in self._seconds.items()
            if time_s >= to_s and each.begun_at is not None
        ]
        self.index.advance(to_s, min(begun, default=None))
        self.counts.settle()

    def _take_in(self) -> bool:
        """Give slots to messages of the queue that have none; whether there are more.

        They are those that came since the last note, and those of another broker.
        """
        index, queue = self.index, self._store.find_queue(TIMER_TOPIC, 0)
        if queue is None or not index.behind or self._settings().timer_stop_enqueue:
            return False
        self._tick.commit_log()
        now_ms = self.now_ms()
        for _ in range(TAKEN_IN):
            offset = index.next_offset
            if offset >= queue.max_offset:
                return False
            position, size, _ = queue.entry(offset)
            try:
                record = self._records.get(position)
                found = None if record is None else waiting(record, offset, position, size)
            except ValueError as error:
                log.error("timer_message_dropped offset=%d position=%d reason=%r",
                          offset, position, str(error))  # fmt: skip
                found = None
            if found is None:
                index.next_offset += 1
                continue
            self._take(*found, now_ms)
            if index.next_offset == offset:
                return False  # its slot is not free yet
        return True

    def _deliver(self, second: DueSecond, now_ms: int) -> int | None:
        """Store a slice of what is due; return when to come back, None: nothing is left."""
        messages, bytes_left, wait_ms = SLICE_MESSAGES, SLICE_BYTES, None
        stored: list[tuple[int, int]] = []
        begun_at = self._store.commit_log.committed
        try:
            for due in second.due_until(now_ms, messages):
                count, places = 0, second.due(due, messages)
                try:
                    for position in places:
                        if bytes_left <= 0:
                            break
                        bytes_left -= self._deliver_one(second, position, now_ms)
                        count += 1
                finally:
                    stored.append((due, count))
                messages -= count
                if messages <= 0 or bytes_left <= 0:
                    break
        except LogBusy:
            wait_ms = BUSY_WAIT_MS
        except ColdRecord:
            wait_ms = FETCH_WAIT_MS
        except StoreError as error:
            wait_ms = REFUSED_WAIT_MS
            self._tell_refused(error)
        except Exception:  # no memory, say: what was stored before is in the log all the same
            wait_ms = REFUSED_WAIT_MS
            log.exception("timer_delivery_failed")
        else:
            self._refused = False
        if stored:
            if not self._tick.commit_log():
                return REFUSED_WAIT_MS  # nothing of the slice is in the log
            if second.begun_at is None:
                second.begun_at = begun_at
            for due, count in stored:
                second.delivered(due, count)
            self._tick.schedule()  # somebody may wait for the messages
        if wait_ms is not None:
            return wait_ms
        first_ms = second.first_ms()
        return None if first_ms is None else max(0, first_ms - self.now_ms())

    def _deliver_one(self, second: DueSecond, position: int, now_ms: int) -> int:
        """Store a message that is due in its own topic, or put it aside once more.

        Returns its bytes. One that cannot be delivered, ever, is logged and passed over. Raises
        StoreError while the log takes none.
        """
        record = self._records.get(position)
        if record is None:
            if position >= self._store.commit_log.begin:
                self._reading.doubt(second)
            return 0
        outgoing, counts = self._outgoing, self.counts
        if record.queue_offset in self.index.done:  # before the last start
            counts.leave(topic_of(record), count_of(record))
            return 0
        if second.deletes and (key := key_of(record)) in second.deletes:
            if not second.is_counted_off(key):
                counts.leave(topic_of(record), count_of(record))
            return 0
        try:
            if position in second.rolls:
                self.arrived(*outgoing.roll(record))
                counts.leave(topic_of(record), count_of(record))
            else:
                topic = outgoing.deliver(record)
                counts.leave(topic)
                self.passed.delivered[topic] += 1
        except Undeliverable as error:
            log.error("timer_message_dropped offset=%d position=%d reason=%r",
                      record.queue_offset, position, str(error))  # fmt: skip
            counts.leave(topic_of(record), count_of(record))
            return 0
        return len(record.body) + len(record.properties)

    def _tell_refused(self, error: StoreError) -> None:
        self._on_refused(error)
        if not self._refused:
            self._refused = True
            log.error("timer_delivery_waits reason=%r", str(error))
