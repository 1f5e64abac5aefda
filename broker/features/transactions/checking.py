"""Asking producers about half messages that they have not decided about (39, code 323).

What is due is stored once more at the end of the half topic, counting the check, and its record so
far is over; then one living producer of its group is asked. What was asked often enough goes to
TRANS_CHECK_MAX_TIME_TOPIC. One timer waits for the first that is due; while none is open there is
none. Source: TransactionalMessageServiceImpl.check, AbstractTransactionalMessageCheckListener.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.broker.features.transactions.asking import Asking
from aerobee.broker.features.transactions.ending import DISCARDED, Endings
from aerobee.broker.features.transactions.halves import MOVE_ON_MS, Half, OpenHalves, Waits
from aerobee.broker.features.transactions.ops import (
    BUSY_WAIT_S,
    REFUSED_WAIT_S,
    Clocks,
    OpMessages,
    PendingCall,
)
from aerobee.broker.features.transactions.texts import copied_text, half_of
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record, host_bytes
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from aerobee.storage.errors import LogBusy, StoreError
from aerobee.storage.upkeep.wall_time import WallTime

log = logging.getLogger(__name__)

SLICE_HALVES: Final = 64  # per turn of the loop, some milliseconds
SLICE_BYTES: Final = 256 << 10  # of bodies that are asked about in a turn: peers have to take them
UNREAD_WAIT_MS: Final = 100  # until it is looked at again whether a group's producers read ...
UNREAD_LOOKS: Final = 10  # ... and more, so that so many halves are looked at in a millisecond
QUEUE_ID: Final = 0
HOUR_MS: Final = 3_600_000


def waits_of(settings: BrokerSettings) -> Waits:
    """Return how long halves wait by the settings."""
    return Waits(settings.transaction_time_out, settings.transaction_check_interval)


class HalfChecks:
    """Looks at halves that are due; `asking` sends what is to be asked."""

    def __init__(
        self, live: Live, writing: Writing, endings: Endings, asking: Asking, topics: TopicTable
    ) -> None:
        self._live = live
        self._store = writing.store
        self._queues = writing.queues
        self._appender = writing.appender
        self._tick = writing.tick
        self._endings = endings
        self._lookups = endings.lookups
        self._halves: OpenHalves = endings.halves
        self._ops: OpMessages = endings.ops
        self._clock: Clocks = endings.clock
        self._asking = asking
        self._topics = topics
        self._call: PendingCall | None = None
        self._call_ms = 0
        self._running = False
        self._refused = False
        self._wall = WallTime(
            lambda: self._clock.now_ms() / 1000, lambda: self._clock.steady_ms() / 1000
        )
        self._tasks = Tasks()
        self._cold: list[Half] = []  # of the slice
        self._fetching = False
        self.on_refused: Callable[[StoreError], None] = lambda error: None
        self.counts: Counter[str] = Counter()  # checks by topic

    def start(self) -> None:
        """Look at what is due from now on."""
        self._running = not self._store.read_only
        self.wake()

    def stop(self) -> None:
        """Look at nothing more."""
        self._running = False
        if self._call is not None:
            self._call.cancel()
            self._call = None

    async def close(self) -> None:
        """Wait for no record any more."""
        self.stop()
        await self._tasks.close()

    def apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time."""
        self._halves.follow(waits_of(settings), self._clock.now_ms(), self._clock.steady_ms())
        self.wake()

    def added(self) -> None:
        """Take notice of a half that was added."""
        if self._call is None or self._halves.latest_due < self._call_ms:
            self.wake()

    def wake(self, wait_s: float = 0.0) -> None:
        """Make sure that the next look is when the first half is due, `wait_s` from now at least.

        A timer that fires too early, since its half is over, looks again.
        """
        if not self._running or (due_ms := self._halves.next_due()) is None:
            return
        steady_ms = self._clock.steady_ms()
        due_ms = max(due_ms, steady_ms + round(wait_s * 1000))
        if self._call is not None:
            if self._call_ms <= due_ms:
                return
            self._call.cancel()
        self._call_ms = due_ms
        self._call = self._clock.call_later(max(0, due_ms - steady_ms) / 1000, self._look)

    def resume(self, record: Record) -> None:
        """Store a half message that was given up once more, with no check counted.

        One that is open is left as it is. Raises the errors of the store.
        """
        properties = parse_properties(record.properties)
        half = half_of(properties, 0, 0, record.born_timestamp, 0)
        if self._halves.find(half.key) is None:
            self._copy(record, copied_text(record.properties, 0, None))
            if not self._tick.commit_log():
                raise StoreError(self._store.commit_log.refusal or "the log could not be written")
            self._tick.schedule()

    def _look(self) -> None:
        self._call = None
        wait_s = REFUSED_WAIT_S
        try:
            wait_s = self._slice()
        except Exception:  # no memory, say: what was not checked is looked at again
            log.exception("transaction_checks_failed")
        self.wake(wait_s)

    def _slice(self) -> float:
        """Look at some that are due; return how many s to wait at least."""
        asked: list[tuple[Half, Record]] = []
        steady_ms = self._clock.steady_ms()
        wait_s = 0.0
        asked_bytes = 0
        rooms: dict[tuple[str, str], bool] = {}  # a slice is written when it is over
        try:
            for half in self._halves.take_due(steady_ms, SLICE_HALVES):
                asked_for = half.key.group, half.key.topic
                if (has_room := rooms.get(asked_for)) is None:
                    has_room = rooms[asked_for] = self._asking.has_room(*asked_for)
                if not has_room:
                    wait_ms = UNREAD_WAIT_MS + len(self._halves) // UNREAD_LOOKS
                    self._halves.put_off(half, steady_ms + wait_ms)
                    continue
                if half.position >= self._store.commit_log.committed:  # a copy of this very turn
                    self._halves.put_off(half, steady_ms + round(BUSY_WAIT_S * 1000))
                    continue
                if not self._lookups.is_warm(half.position):
                    self._cold.append(half)
                    continue
                try:
                    asked_bytes += self._one(half, asked)
                    self._refused = False
                except LogBusy:
                    wait_s = BUSY_WAIT_S
                except StoreError as error:
                    wait_s = REFUSED_WAIT_S
                    self.on_refused(error)
                    if not self._refused:
                        self._refused = True
                        log.error("transaction_checks_wait reason=%r", str(error))
                except BaseException:
                    self._halves.put_off(half, steady_ms + round(REFUSED_WAIT_S * 1000))
                    raise
                if wait_s:
                    self._halves.put_off(half, steady_ms)
                    break
                if asked_bytes > SLICE_BYTES:
                    break
        finally:  # where one fails, too: those before it are counted as asked about
            self._ask(asked)
        return wait_s

    def _ask(self, asked: list[tuple[Half, Record]]) -> None:
        """Store what a slice has come to, and ask the producers."""
        if self._cold and not self._fetching:
            self._fetching = self._tasks.start(self._fetch(), "cold half messages") is not None
        if self._ops.pending or asked:
            self._ops.write()
            if self._tick.commit_log():
                self._tick.schedule()
                for half, record in asked:
                    self._asking.ask(half, record)

    async def _fetch(self) -> None:
        """Read what is due and not in memory, beside the loop; then it is due again."""
        try:
            while self._cold:
                halves, self._cold = self._cold[:SLICE_HALVES], self._cold[SLICE_HALVES:]
                await self._fetch_some(halves)
        finally:
            self._fetching = False

    async def _fetch_some(self, halves: list[Half]) -> None:
        try:
            await self._lookups.warm_records([half.position for half in halves])
        except (OSError, RequestError) as error:
            log.warning("half_messages_not_read count=%d error=%s", len(halves), error)
            await asyncio.sleep(REFUSED_WAIT_S)
        steady_ms = self._clock.steady_ms()
        for half in halves:
            if self._halves.at(half.offset) is half:
                self._halves.put_off(half, steady_ms)
        self.wake()

    def _one(self, half: Half, asked: list[tuple[Half, Record]]) -> int:
        """Check a half, let it move on, or give it up; return how much is to be sent for that."""
        settings, now_ms = self._live.current, self._clock.now_ms()
        record = self._record(half)
        if record is None:
            log.error("half_message_lost topic=%s offset=%d position=%d key=%s",
                      half.key.topic, half.offset, half.position, half.key.unique_key)  # fmt: skip
            self._endings.over(half, DISCARDED)
            return 0
        old_ms = now_ms - min(record.born_timestamp, record.store_timestamp)
        looked_at = half.checks > 0 or half.first_offset is not None
        too_old = looked_at and old_ms > settings.file_reserved_time * HOUR_MS
        too_old = too_old and self._wall.now() is not None  # else the clock was set ahead
        if half.checks >= settings.transaction_check_max or too_old:
            self._give_up(half, record)
            return 0
        waited_ms = self._halves.waits.check_ms(half) - half.stored_ms
        if half.immune_ms is not None and now_ms - half.stored_ms < waited_ms:
            first = half.offset if half.first_offset is None else half.first_offset
            text = copied_text(record.properties, half.checks, first)
            if len(text) > PROPERTIES_BYTES_MAX:
                self._stay(half)
            else:
                self._copy(record, text)
            return 0
        text = copied_text(record.properties, half.checks + 1, None)
        if len(text) > PROPERTIES_BYTES_MAX:
            half.checks += 1
            self._stay(half)
            copy = half
        else:
            copy = self._copy(record, text)
        self.counts[half.key.topic] += 1
        asked.append((copy, record))
        return len(record.body)

    def _record(self, half: Half) -> Record | None:
        try:
            found = self._store.record_at(half.position, (HALF_TOPIC, QUEUE_ID, half.offset))
            return None if found is None else decode_record(found, check_crc=False)
        except CorruptRecord:
            return None

    def _stay(self, half: Half) -> None:
        """Look at a half later whose properties leave no room for a copy's: another broker's.

        Its checks are counted in memory.
        """
        wait_ms = self._halves.waits.next_ms if half.immune_ms is None else MOVE_ON_MS
        self._halves.put_off(half, self._clock.steady_ms() + wait_ms)

    def _copy(self, record: Record, text: bytes) -> Half:
        """Store a half message at the end of its topic; the record before is over."""
        now_ms = self._clock.now_ms()
        offset, position = self._append(HALF_TOPIC, record, text, now_ms)
        half = half_of(parse_properties(text), offset, position, record.born_timestamp, now_ms)
        before = self._halves.add(half, now_ms, self._clock.steady_ms())
        if before is not None:
            self._ops.over([before.offset])
        self.wake()
        return half

    def _give_up(self, half: Half, record: Record) -> None:
        """Put a half message where an administrator finds it."""
        self._topics.create_for_group(TRANS_CHECK_MAX_TIME_TOPIC, 1)
        text = copied_text(record.properties, half.checks, None)
        if len(text) > PROPERTIES_BYTES_MAX:
            text = record.properties
        self._append(TRANS_CHECK_MAX_TIME_TOPIC, record, text, self._clock.now_ms())
        self._endings.over(half, DISCARDED)
        log.warning("transaction_given_up group=%s topic=%s key=%s checks=%d",
                    half.key.group, half.key.topic, half.key.unique_key, half.checks)  # fmt: skip

    def _append(self, topic: str, record: Record, text: bytes, now_ms: int) -> tuple[int, int]:
        """Append a record's message with other properties; return its offset and position."""
        queue = self._queues.get(topic, QUEUE_ID)
        stamp = Stamp(host_bytes(*record.born_host), host_bytes(*record.store_host))
        tags_code = self._appender.tag_hashes[parse_properties(text).get(Property.TAGS, "")]
        position = self._appender.append_again(
            queue,
            record.sys_flag,
            min(record.born_timestamp, record.store_timestamp),  # of a clock that is ahead: once
            stamp.at(now_ms, record.reconsume_times),
            (record.flag, record.body, text, tags_code),
        )
        return queue.stored.max_offset - 1, position
