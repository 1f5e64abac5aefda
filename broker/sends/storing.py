"""Where messages are stored, as what, and when they are as safe as the store promises."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from aerobee.broker.sends.retries import Destination
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.appender import Message
from aerobee.broker.writing.firsts import Firsts
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import BatchPlacer, InnerBatch, Placer
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.codes import ResponseCode, SysFlag
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.batch import BatchedMessage
from aerobee.remoting.message.properties import (
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    join_properties,
)
from aerobee.remoting.message.record import Record, decode_record, host_bytes
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY

log = logging.getLogger(__name__)


class Placed(msgspec.Struct, frozen=True):
    """Complete messages, the queue in which they are stored, and when (ms since 1970)."""

    queue: TopicQueue
    messages: list[Message]
    stored_ms: int
    appended: Callable[[], None] | None = None  # who wants to know of it, before the commit
    cleared_flags: int = 0  # of the sys flag: not stored
    set_flags: int = 0  # of the sys flag: stored, whatever was sent
    reply: Mapping[str, str] = msgspec.field(default_factory=dict)  # see `Elsewhere`


class Storing:
    """Stores messages in their own queue, or where the first of `placers` says that has an opinion.

    `refused` is told what the store would not take, `now_ms` is the time of storing.
    """

    def __init__(
        self,
        live: Live,
        writing: Writing,
        placers: Sequence[Placer],
        refused: Callable[[StoreError], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._live = live
        self._writing = writing
        self._store = writing.store
        self.queues = writing.queues
        self._tick = writing.tick
        self._appender = writing.appender
        self._store_host = writing.store_host
        self._id_prefix = writing.store_host.hex().upper()
        self._placers = placers
        self._refused = refused
        self.now_ms = now_ms
        self.waits = writing.tick.sync  # whether `durable` waits for the disk

    @property
    def firsts(self) -> Firsts | None:
        """Who knows which messages were stored before, None where no topic asks for it."""
        return self._writing.firsts

    def place(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        body: bytes | memoryview,
        properties: dict[str, str],
    ) -> Placed:
        """Complete one message; `properties` may change with its place.

        Raises MessageTooLarge for properties that are too long, those included that a message gets
        later by its place, and RequestError for properties that cannot be: what a field of a
        header says may hold a separator, behind which another property would begin.
        """
        properties.pop(DELIVERED_PROPERTY, None)  # ours alone: recovery believes it
        light = self._appender.light
        light_bytes = light.check(properties, topic) if light is not None else 0
        elsewhere, now_ms = None, self.now_ms()
        for placer in self._placers:
            if elsewhere := placer.elsewhere(properties, topic, queue_id, now_ms):
                break
        text = join_properties(properties)
        if text.count(PROPERTY_SEPARATOR) != len(properties):  # readers would see others
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, "a property has a separator of properties in it"
            )
        encoded = text.encode("utf-8", "replace")
        require_room(len(encoded), light_bytes + (elsewhere.spare_bytes if elsewhere else 0))
        if elsewhere:
            messages: list[Message] = [(flag, body, encoded, elsewhere.tags_code)]
            return Placed(
                elsewhere.queue, messages, now_ms, elsewhere.appended, elsewhere.cleared_flags,
                reply=elsewhere.reply,
            )  # fmt: skip
        messages = [(flag, body, encoded, self._appender.tag_hashes.of(text))]
        return Placed(self.queues.get(topic, queue_id), messages, now_ms)

    def place_batch(self, topic: str, queue_id: int, batch: Iterable[BatchedMessage]) -> Placed:
        """Complete the messages of a batch; raises MessageTooLarge as `place` does."""
        messages: list[Message] = []
        for entry in batch:
            raw = entry.properties
            if raw and raw[-1] != 2:
                raw += b"\x02"  # what others add behind it must be a property of its own
            require_room(len(raw))
            tags_code = self._appender.tag_hashes.of(str(raw, "utf-8", "replace"))
            messages.append((entry.flag, entry.body, raw, tags_code))
        return Placed(self.queues.get(topic, queue_id), messages, self.now_ms())

    def place_inner_batch(
        self, inner: InnerBatch, flag: int, body: bytes | memoryview, added: Mapping[str, str]
    ) -> Placed:
        """Complete a batch that is one record; raises MessageTooLarge as `place` does."""
        place, properties = inner.place, {**inner.properties, **added}
        encoded = join_properties(properties).encode("utf-8", "replace")
        require_room(len(encoded))
        messages: list[Message] = [(flag, body, encoded, place.tags_code)]
        return Placed(
            place.queue, messages, self.now_ms(), place.appended, place.cleared_flags,
            inner.flags, place.reply,
        )  # fmt: skip

    @property
    def inner_batches(self) -> BatchPlacer | None:
        """Who knows which batches are one record, None where no topic has such."""
        return self._writing.inner_batches

    async def stands(self, half: Record) -> bool:
        """Whether a half message is open, or was committed; RequestError: the disk refuses."""
        outcomes = self._writing.outcomes
        return outcomes is None or await outcomes.stands(half)

    def append(
        self,
        placed: Placed,
        born_host: bytes,
        born_timestamp: int,
        sys_flag: int,
        reconsume_times: int,
    ) -> tuple[list[int], int]:
        """Store and commit them; return their positions and the first one's queue offset.

        Of `sys_flag` the bits of the hosts are set here. Raises LogBusy and MessageTooLarge, having
        done nothing, and RequestError (SERVICE_NOT_AVAILABLE) for whatever else is in the way.
        """
        stamp = Stamp(born_host, self._store_host)
        cleared = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | placed.cleared_flags
        flags = (sys_flag & ~cleared) | stamp.sys_flag | placed.set_flags
        offset = placed.queue.stored.max_offset
        try:
            positions = self._appender.append(
                placed.queue, flags, born_timestamp,
                stamp.at(placed.stored_ms, reconsume_times), placed.messages,
            )  # fmt: skip
        except (LogBusy, MessageTooLarge):
            raise
        except StoreError as error:
            self._refused(error)
            raise unavailable(str(error)) from error
        if placed.appended is not None:
            placed.appended()
        if not self._tick.commit_log():
            raise unavailable(self._store.commit_log.refusal or "the log could not be written")
        self._tick.schedule()  # somebody may wait for the message
        return positions, offset

    def message_ids(self, positions: Iterable[int]) -> str:
        """Return the broker's ids of messages by their positions, joined by commas."""
        return ",".join([f"{self._id_prefix}{position:016X}" for position in positions])

    async def store_again(self, position: int, to: Destination, kept: Record | None = None) -> None:
        """Store the message at a position as its group will get it; returns when it is safe.

        `kept` is one that is not in the log.
        """
        try:
            self._append_again(position, to, kept)
        except LogBusy:
            await self.room_prepared()
            try:
                self._append_again(position, to, kept)
            except LogBusy as error:
                raise busy() from error
        if self.waits and not await self.durable():
            raise RequestError(ResponseCode.SYSTEM_ERROR, "FLUSH_DISK_TIMEOUT")

    def record(self, position: int, *, body: bool = True) -> Record:
        """Return the record that a client names by its position, whatever position that is.

        Raises RequestError where none starts there. Who waits for something takes it without its
        body: requests that wait must not fill the memory.
        """
        self._tick.commit_log()
        try:
            found = self._store.record_at(position)
            if found is not None:
                return decode_record(found, body=body)
        except CorruptRecord as error:
            log.warning("send_back_refused position=%d reason=%r", position, str(error))
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {position}")

    async def room_prepared(self) -> None:
        """Wait for the helper that prepares the log, after LogBusy."""
        await asyncio.sleep(self._live.current.wait_time_mills_in_send_queue / 1000)

    async def durable(self) -> bool:
        """Wait until the disk has what was committed; False when it took too long."""
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def done(ok: bool) -> None:
            if not flushed.done():
                flushed.set_result(ok)

        self._tick.when_durable(done)
        return await flushed

    def _append_again(self, position: int, to: Destination, kept: Record | None) -> None:
        record = kept or self.record(position)
        if record.sys_flag & SysFlag.INNER_BATCH:  # no group's queue has such; clients send it anew
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "MESSAGE_ILLEGAL: the record holds a batch, send back its message as a new one",
            )
        try:
            placed = self.place(
                to.topic.topic_name, to.queue_id, record.flag, record.body, dict(to.properties)
            )
            self.append(
                placed, host_bytes(*record.born_host), record.born_timestamp,
                record.sys_flag, to.reconsume_times,
            )  # fmt: skip
        except MessageTooLarge as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"{error}") from error


def require_room(properties_bytes: int, spare_bytes: int = 0) -> None:
    """Raise MessageTooLarge for properties that leave no room for `spare_bytes` more."""
    bytes_max = PROPERTIES_BYTES_MAX - spare_bytes
    if properties_bytes > bytes_max:
        raise MessageTooLarge(f"the properties have {properties_bytes} bytes, limit {bytes_max}")


def busy() -> RequestError:
    """Refuse with SYSTEM_BUSY: the same request soon succeeds."""
    return RequestError(
        ResponseCode.SYSTEM_BUSY,
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "the log's space is being prepared",
    )


def unavailable(reason: str) -> RequestError:
    """Refuse with SERVICE_NOT_AVAILABLE in RocketMQ's words, and say which of them it is."""
    return RequestError(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: "
        "the broker's disk is full, messages are put to the slave, message store has been "
        f"shut down, etc. ({reason})",
    )
