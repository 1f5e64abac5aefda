"""Delivers delayed messages when they are due (ScheduleMessageService).

No task and no timer per message: a level's messages lie in a queue in the order in which they are
due, so one timer waits for the first of all levels, and while nothing waits there is none. What
is due is stored in slices, one slice per turn of the loop. Each message is delivered exactly once,
see `storage.features.delays.progress`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.features.delays.levels import arrived_properties, due_ms, postpone
from aerobee.broker.rules.delay_property import delay_level
from aerobee.broker.rules.names import topic_problem
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record, host_bytes
from aerobee.remoting.words import HALF_TOPIC, SCHEDULE_TOPIC
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError
from aerobee.storage.features.delays.progress import DELIVERED_BYTES_MAX, DelayProgress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.cold.fetching import Fetched, fetch
from aerobee.storage.reads.cold.request import ColdRequest

log = logging.getLogger(__name__)

SLICE_MESSAGES: Final = 64  # per turn of the loop, some milliseconds
SLICE_BYTES: Final = 1 << 20
LOOK_INTERVAL_MS: Final = 1000  # while messages wait: the clock may be set, the note grows old
FETCH_WAIT_MS: Final = 500  # at most, for what has to come from the disk first
BUSY_WAIT_MS: Final = 100  # DELAY_FOR_A_WHILE
REFUSED_WAIT_MS: Final = 1000  # until a log that refuses is tried again
QUEUE_ID_MAX: Final = 32_767


class ScheduledCall(Protocol):
    """What `call_later` of a loop returns."""

    def cancel(self) -> object:
        """Forget the call."""


class Clock(msgspec.Struct, frozen=True):
    """The wall clock that records carry, and the `call_later` of an event loop."""

    now_ms: Callable[[], int]
    call_later: Callable[[float, Callable[[], None]], ScheduledCall]


class DelayService:
    """Puts messages aside and stores them in their own topic once they are due.

    `elsewhere` says where a delayed message waits; `on_refused` hears what the store did not take.
    """

    def __init__(
        self,
        writing: Writing,
        levels_ms: tuple[int, ...],
        clock: Clock,
        cold_reads: ColdReads | None = None,
        on_refused: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        self._cold_reads = cold_reads
        self._fetching: set[Path] = set()  # queues of which something is being read
        self._store = writing.store
        self._queues = writing.queues
        self._appender = writing.appender
        self._tick = writing.tick
        self._now_ms = clock.now_ms
        self._call_later = clock.call_later
        self.levels_ms = levels_ms
        self.progress = DelayProgress(writing.store)
        self._first = 0  # the level that the last slice began with
        self._timer: ScheduledCall | None = None
        self._wake_ms = 0  # when the timer fires, by the wall clock
        self._on_refused = on_refused
        self._refused = False  # whether the last slice met a log that refuses: told once

    def start(self) -> None:
        """Deliver what is due, and wait for the rest; `progress` has been recovered."""
        if self._store.read_only:
            return
        for queue_id in self._store.topics().get(SCHEDULE_TOPIC, []):
            if queue_id >= len(self.levels_ms) and (count := self.progress.waiting(queue_id + 1)):
                log.warning("delayed_messages_stay level=%d count=%d levels=%d",
                            queue_id + 1, count, len(self.levels_ms))  # fmt: skip
        if any(self.progress.waiting(level) for level in self._levels()):
            self._schedule(0)

    def stop(self) -> None:
        """Deliver nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> Mapping[int, int]:
        """Return by level what was delivered for certain; the store has been closed."""
        self.stop()
        self.progress.close()
        return self.progress.durable

    def waiting(self) -> dict[int, tuple[int, int]]:
        """Return by level the next offset to deliver and the end of its queue."""
        found: dict[int, tuple[int, int]] = {}
        for level in self._levels():
            queue = self.progress.queue(level)
            if queue is not None:
                found[level] = (self.progress.next_offset(level), queue.max_offset)
        return found

    def settled(self) -> Mapping[int, int]:
        """Return by level what was delivered for certain: the disk has those messages."""
        if self.progress.durable != self.progress.offsets:
            self._note()
        return self.progress.durable

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Say where a message waits that asks for a level, with its properties changed for that.

        The tags code of its queue entry is the time (ms) when it is due.
        """
        level = delay_level(properties)
        if not level:
            return None
        level = postpone(properties, topic, queue_id, level, len(self.levels_ms))
        due = now_ms + self.levels_ms[level - 1]
        queue = self._queues.get(SCHEDULE_TOPIC, level - 1)
        return Elsewhere(queue, due, DELIVERED_BYTES_MAX, partial(self._waits, due))

    def _waits(self, due: int) -> None:
        """Take note of a message that was appended to its level's queue, before it is committed."""
        if self._timer is None:
            self._note()  # so that recovery need not look through the hours without any
        elif self._wake_ms <= due:
            return
        self._schedule(due - self._now_ms())

    def _levels(self) -> range:
        return range(1, len(self.levels_ms) + 1)

    def _in_turn(self) -> Iterator[int]:
        """Yield every level, each slice from another one on: a long backlog delays no other."""
        levels = self._levels()
        self._first = self._first % len(levels) + 1
        yield from range(self._first, len(levels) + 1)
        yield from range(1, self._first)

    def _schedule(self, wait_ms: int) -> None:
        """Wake up in that time, or a little earlier to look at the clock."""
        self.stop()
        wait_ms = max(0, min(wait_ms, LOOK_INTERVAL_MS))
        self._wake_ms = self._now_ms() + wait_ms
        self._timer = self._call_later(wait_ms / 1000, self._wake)

    def _wake(self) -> None:
        """Deliver one slice and wait for what comes next."""
        self._timer = None
        wait_ms: int | None = REFUSED_WAIT_MS
        try:
            wait_ms = self._deliver()
        except Exception:  # no memory, say: what was not delivered is looked at again
            log.exception("delayed_deliveries_failed")
        if wait_ms is not None:
            self._schedule(wait_ms)

    def _deliver(self) -> int | None:
        """Deliver one slice; return after how many ms to come back, None when nothing waits."""
        now = self._now_ms()
        reached: dict[int, int] = {}
        budget = _Budget()
        waits: list[int] = []
        for level in self._in_turn():
            try:
                wait_ms = self._deliver_level(level, now, budget, reached)
            except Exception:  # a fault of ours must not end deliveries for good
                log.exception("delayed_delivery_failed level=%d", level)
                wait_ms = REFUSED_WAIT_MS
            if wait_ms is not None:
                waits.append(wait_ms)
        if reached:
            if not self._tick.commit_log():
                return REFUSED_WAIT_MS  # nothing of the slice is in the log
            self.progress.offsets.update(reached)
            self._tick.schedule()  # somebody may wait for the messages
        self._note()
        return min(waits, default=None)

    def _deliver_level(
        self, level: int, now: int, budget: "_Budget", reached: dict[int, int]
    ) -> int | None:
        """Deliver what is due of one level; return the ms until its next message, None without.

        What was stored is counted in `reached` at once, whatever happens to the next message.
        """
        queue = self.progress.queue(level)
        if queue is None:
            return None
        offset = self.progress.next_offset(level)
        if offset < queue.min_offset:
            log.error("delayed_messages_lost level=%d from=%d to=%d", level, offset,
                      queue.min_offset)  # fmt: skip
            offset = reached[level] = queue.min_offset  # the log was kept too short a time
        wait_ms = None
        while offset < queue.max_offset:
            if self._is_cold(queue, offset, record=False):
                return FETCH_WAIT_MS
            position, size, tags_code = queue.entry(offset)
            wait_ms = due_ms(tags_code, now, self.levels_ms[level - 1]) - now
            if wait_ms > 0 or not budget.left:
                break
            if self._is_cold(queue, offset, record=True):
                return FETCH_WAIT_MS
            try:
                nothing = size == BLANK_SIZE or self.progress.is_done(level, offset)
                budget.spend(0 if nothing else self._store_again(position, level, offset))
            except LogBusy:
                wait_ms = BUSY_WAIT_MS
                break
            except StoreError as error:
                self._on_refused(error)
                wait_ms = REFUSED_WAIT_MS
                self._tell_refused(level, error)
                break
            self._refused = False
            offset = reached[level] = offset + 1
            wait_ms = None
        return None if wait_ms is None else max(0, wait_ms)

    def _is_cold(self, queue: ConsumeQueue, offset: int, *, record: bool) -> bool:
        """Whether what is to be looked at must come from the disk; if so it is asked for."""
        request = self._store.reader.cold_request(queue, offset, record=record)
        if request is None:
            return False
        with suppress(RequestError):  # too many wait for the disk: asked again next time
            self._fetch(request)
        return True

    def _fetch(self, request: ColdRequest) -> None:
        """Have entries and records brought into memory, then go on; RequestError if not."""
        files, folder = self._store.files, request.queue.folder
        if self._cold_reads is None or folder in self._fetching:
            return

        def fetched(result: Fetched | None, error: Exception | None) -> None:
            self._fetching.discard(folder)
            if error is not None:
                if not self._refused:
                    self._refused = True
                    log.error("delayed_messages_not_read queue=%s error=%s",
                              folder, error)  # fmt: skip
            elif self._timer is not None:
                self._schedule(0)

        memory_bytes = request.memory_bytes + self._store.settings.message_bytes_max
        self._cold_reads.begin(SCHEDULE_TOPIC, lambda: fetch(files, request), memory_bytes, fetched)
        self._fetching.add(folder)

    def _store_again(self, position: int, level: int, offset: int) -> int:
        """Store a message that is due in its own topic; return the bytes it took.

        A message that cannot be delivered, ever, is logged and passed over. Raises StoreError while
        the log takes none.
        """
        try:
            found = self._store.record_at(position, (SCHEDULE_TOPIC, level - 1, offset))
            record = None if found is None else decode_record(found)
            if record is None:
                raise ValueError("the log does not have it any more")
            properties = parse_properties(record.properties)
            queue = self._real_queue(properties)
            self._append(queue, record, level, offset)
        except (ValueError, CorruptRecord, MessageTooLarge) as error:
            log.error("delayed_message_dropped level=%d offset=%d position=%d reason=%r",
                      level, offset, position, str(error))  # fmt: skip
            return 0
        return record.total_size

    def _real_queue(self, properties: dict[str, str]) -> TopicQueue:
        topic = properties.get(Property.REAL_TOPIC, "")
        text = properties.get(Property.REAL_QID, "")
        if problem := topic_problem(topic):
            raise ValueError(problem)
        if topic in (SCHEDULE_TOPIC, HALF_TOPIC):
            raise ValueError(f"its own topic is {topic}")
        if not (text.isascii() and text.isdecimal() and int(text[:6]) <= QUEUE_ID_MAX):
            raise ValueError(f"its own queue is {text!r}")
        return self._queues.get(topic, int(text[:6]))

    def _append(self, queue: TopicQueue, record: Record, level: int, offset: int) -> None:
        stamp = Stamp(host_bytes(*record.born_host), host_bytes(*record.store_host))
        properties = arrived_properties(record.properties, level, offset, PROPERTIES_BYTES_MAX)
        tags_code = self._appender.tag_hashes.of(str(properties, "utf-8", "replace"))
        self._appender.append_again(
            queue,
            record.sys_flag,
            record.born_timestamp,
            stamp.at(self._now_ms(), record.reconsume_times),
            (record.flag, record.body, properties, tags_code),
        )

    def _tell_refused(self, level: int, error: StoreError) -> None:
        if not self._refused:
            self._refused = True
            log.error("delayed_delivery_waits level=%d reason=%r", level, str(error))

    def _note(self) -> None:
        try:
            self.progress.note()
        except OSError as error:
            log.error("delay_progress_not_noted error=%s", error)


class _Budget:
    """How much one slice may still deliver."""

    def __init__(self) -> None:
        self._messages = SLICE_MESSAGES
        self._bytes = SLICE_BYTES

    @property
    def left(self) -> bool:
        """Whether there is any."""
        return self._messages > 0 and self._bytes > 0

    def spend(self, count: int) -> None:
        """Take one message of so many bytes off."""
        self._messages -= 1
        self._bytes -= count
