"""END_TRANSACTION: a producer commits its half message, or rolls it back (EndTransactionProcessor).

A transaction ends once, whichever of its records an END names and however often it comes: what
counts is whether it is open, and that the memory of this process and the log agree on.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.features.transactions.halves import Half, Key, OpenHalves
from aerobee.broker.features.transactions.ops import BUSY_WAIT_S, OpMessages
from aerobee.broker.features.transactions.rights import HasRights, check_ended
from aerobee.broker.features.transactions.texts import (
    committed_text,
    destination,
    immunity_ms,
    key_of,
)
from aerobee.broker.room import Histogram
from aerobee.broker.sends.storing import busy, unavailable
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.codes import ResponseCode, SysFlag
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Host, Record, decode_record, host_bytes
from aerobee.remoting.net.routes import Outcome, Reply, Request
from aerobee.remoting.words import HALF_TOPIC
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError

COMMIT: Final = SysFlag.TRANSACTION_COMMIT
ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK
DISCARDED: Final = -1
Answer: TypeAlias = Outcome | Coroutine[Any, Any, Outcome]
FINISH_S: Final = (5, 60, 600, 3600, 43_200, 86_400)
SLOW_MS: Final = 1000  # a commit that comes earlier took no whole second
OUTCOMES: Final = {COMMIT: "commit", ROLLBACK: "rollback", DISCARDED: "discarded"}


class Endings:
    """Ends transactions; `refused` hears what the store did not take."""

    def __init__(
        self,
        live: Live,
        writing: Writing,
        lookups: Lookups,
        halves: OpenHalves,
        ops: OpMessages,
    ) -> None:
        self._live = live
        self._store = writing.store
        self._queues = writing.queues
        self._appender = writing.appender
        self._tick = writing.tick
        self.halves = halves
        self.ops = ops
        self.clock = ops.clock
        self.lookups = lookups
        self.on_refused: Callable[[StoreError], None] = lambda error: None
        self.counts: Counter[tuple[str, int]] = Counter()  # by topic and outcome
        self.slow: dict[str, Histogram] = {}  # seconds to a commit, of those over SLOW_MS

    def end(self, broker: HasRights | None, request: Request[EndTransactionRequest]) -> Answer:
        """Do what an END says; one that says nothing yet is not answered, as RocketMQ does it."""
        header = request.header
        outcome = header.commit_or_rollback
        if outcome not in (COMMIT, ROLLBACK):
            return None
        if not self.lookups.is_warm(header.commit_log_offset):
            return self._end_cold(broker, request)
        return self._end_warm(broker, request)

    async def _end_cold(
        self, broker: HasRights | None, request: Request[EndTransactionRequest]
    ) -> Outcome:
        """Do what an END says that names an old record, when the disk has given it."""
        try:
            await self.lookups.warm_record(request.header.commit_log_offset)
        except OSError as error:
            raise unavailable(f"the half message cannot be read: {error}") from error
        ended = self._end_warm(broker, request)
        return await ended if isinstance(ended, Coroutine) else ended

    def _end_warm(
        self, broker: HasRights | None, request: Request[EndTransactionRequest]
    ) -> Answer:
        header = request.header
        outcome = header.commit_or_rollback
        half = self.halves.at(header.tran_state_table_offset)
        if half is not None and fits(header, half):  # all that is checked below, from memory
            record = self._record(half.position, (HALF_TOPIC, 0, half.offset))
            if record is not None:
                check_ended(broker, request, record)
                return self._end_or_wait(request, half, record, outcome)
        record, properties = self._half(header)
        check_ended(broker, request, record)
        if self._is_late(header, record, properties):
            return Reply(code=ResponseCode.ILLEGAL_OPERATION)  # its check decides
        self._check(header, record, properties)
        key = key_of(properties)
        half = self.halves.find(key)
        if half is None or record.position < half.begun:
            return self._again(key, outcome)
        return self._end_or_wait(request, half, record, outcome)

    def over(self, half: Half, outcome: int, done: Callable[[bool], None] | None = None) -> None:
        """Let a transaction be over; see `OpMessages.when_written` for `done`."""
        self.over_run([half], [outcome])
        if done is not None:
            self.ops.when_written(done)

    def over_run(self, ended: list[Half], outcomes: list[int]) -> None:
        """Let transactions be over, in their order, and the log say so with this turn."""
        self.halves.end_run(ended, outcomes)
        counts, slow_before_ms = self.counts, self.clock.now_ms() - SLOW_MS
        for half, outcome in zip(ended, outcomes, strict=True):
            counts[half.key.topic, outcome] += 1
            if half.born_ms <= slow_before_ms and outcome == COMMIT:
                self._count_slow(half)
        self.ops.over([half.offset for half in ended])

    def _count_slow(self, half: Half) -> None:
        times = self.slow.setdefault(half.key.topic, Histogram(FINISH_S))
        times.add((self.clock.now_ms() - half.born_ms) // 1000)

    def latencies(self) -> Iterator[tuple[str, Histogram]]:
        """Yield by topic how many whole seconds it took from a birth to its commit."""
        for (topic, outcome), count in list(self.counts.items()):
            if outcome == COMMIT:
                slow = self.slow.get(topic)
                times = Histogram(FINISH_S) if slow is None else slow.copy()
                times.add(0, count - sum(times.counts))
                yield topic, times

    def _half(self, header: EndTransactionRequest) -> tuple[Record, dict[str, str]]:
        """Return the half message that an END names; RequestError where there is none."""
        position = header.commit_log_offset
        record = self._record(position) if position >= 0 else None
        if record is None or record.topic != HALF_TOPIC:
            raise _refused("Find prepared transaction message failed")
        return record, parse_properties(record.properties)

    def _record(self, position: int, named: tuple[str, int, int] | None = None) -> Record | None:
        """Return the record at a position, None where there is none that is sound."""
        if position >= self._store.commit_log.committed:
            self._tick.commit_log()
        try:
            found = self._store.record_at(position, named)
            return None if found is None else decode_record(found, check_crc=False)
        except CorruptRecord:
            return None

    def _is_late(
        self, header: EndTransactionRequest, record: Record, properties: dict[str, str]
    ) -> bool:
        """Whether a producer that wanted no check for a time speaks only after that, unasked."""
        if header.from_transaction_check:
            return False
        if not properties.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS):
            return False
        age_ms = self.clock.now_ms() - record.born_timestamp
        wait_ms = max(immunity_ms(properties) or 0, self._live.current.transaction_time_out)
        return age_ms > wait_ms

    def _check(
        self, header: EndTransactionRequest, record: Record, properties: dict[str, str]
    ) -> None:
        """Refuse an END that may not touch the half message, in RocketMQ's order and words."""
        if properties.get(Property.PGROUP) != header.producer_group:
            raise _refused("The producer group wrong")
        if record.queue_offset != header.tran_state_table_offset:
            raise _refused("The transaction state table offset wrong")
        topic = properties.get(Property.REAL_TOPIC, "")
        named = header.topic or topic
        if named not in (topic, HALF_TOPIC) and not topic.endswith(f"%{named}"):  # a namespace
            raise _refused("The topic of the transaction wrong")

    def _again(self, key: Key, outcome: int) -> Coroutine[Any, Any, Reply]:
        """Answer an END of a transaction that is not open."""
        before = self.halves.outcome(key)
        if before != outcome:
            was = f"its outcome was: {OUTCOMES[before]}" if before else "it has ended before"
            raise _refused(f"The transaction is not open any more, {was}")
        if self._store.commit_log.losses:  # perhaps of this one, which is open again then
            raise self._lost()
        committed, done = _promise()  # the first one may have come in this turn
        self.ops.when_written(done)
        return self._answer(committed)

    def _end_or_wait(
        self,
        request: Request[EndTransactionRequest],
        half: Half,
        record: Record,
        outcome: int,
    ) -> Answer:
        """End a transaction, after a moment where the log has no space prepared."""
        try:
            return self._end(request, half, record, outcome)
        except LogBusy:
            return self._end_when_room(request, half.key, record, outcome)

    def _end(
        self,
        request: Request[EndTransactionRequest],
        half: Half,
        record: Record,
        outcome: int,
    ) -> Answer:
        if outcome == COMMIT:
            self._commit(record)
        if request.command.is_oneway:
            self.over(half, outcome)
            return None
        committed, done = _promise()
        self.over(half, outcome, done)
        return self._answer(committed)

    async def _end_when_room(
        self, request: Request[EndTransactionRequest], key: Key, record: Record, outcome: int
    ) -> Outcome:
        """Try once more when log space had a moment to be prepared."""
        await asyncio.sleep(BUSY_WAIT_S)
        half = self.halves.find(key)
        if half is None or record.position < half.begun:
            return await self._again(key, outcome)
        try:
            ended = self._end(request, half, record, outcome)
        except LogBusy as error:
            raise busy() from error
        return await ended if isinstance(ended, Coroutine) else ended

    async def _answer(self, committed: "asyncio.Future[bool]") -> Reply:
        """Answer when the outcome is as safe as the store promises."""
        if not await committed:
            raise self._lost()
        return await self.durable()

    async def durable(self) -> Reply:
        """Answer when what was committed is as safe as the store promises."""
        durable, done = _promise()
        self._tick.when_durable(done)
        return Reply(code=0 if await durable else ResponseCode.FLUSH_DISK_TIMEOUT)

    def _lost(self) -> RequestError:
        return unavailable(self._store.commit_log.refusal or "the log could not be written")

    def _commit(self, record: Record) -> None:
        """Append the message to its own queue."""
        try:
            topic, queue_id = destination(parse_properties(record.properties))
            text = committed_text(record.properties)
            tags_code = self._appender.tag_hashes.of(str(text, "utf-8", "replace"))
            stamp = _stamp(record.born_host, record.store_host)
            self._appender.append_again(
                self._queues.get(topic, queue_id),
                (record.sys_flag & ~ROLLBACK) | COMMIT,
                record.born_timestamp,
                stamp.at(self.clock.now_ms(), record.reconsume_times, record.position),
                (record.flag, record.body, text, tags_code),
            )
        except LogBusy:
            raise
        except (ValueError, MessageTooLarge) as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"{error}") from error
        except StoreError as error:
            self.on_refused(error)
            raise unavailable(str(error)) from error


def fits(header: EndTransactionRequest, half: Half) -> bool:
    """Whether an END names the open half by its latest record, and may end it."""
    return (
        half.position == header.commit_log_offset
        and half.key.group == header.producer_group
        and half.immune_ms is None
        and header.topic in (half.key.topic, HALF_TOPIC, None)
    )


@lru_cache(maxsize=1024)  # the halves of a turn share a few hosts
def _stamp(born_host: Host, store_host: Host) -> Stamp:
    return Stamp(host_bytes(*born_host), host_bytes(*store_host))


def _promise() -> tuple[asyncio.Future[bool], Callable[[bool], None]]:
    """Return what can be awaited, and who is to be called for that."""
    promise: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def done(ok: bool) -> None:
        if not promise.done():
            promise.set_result(ok)

    return promise, done


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, remark)
