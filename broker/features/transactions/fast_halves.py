"""Half messages and their ENDs on the fast path: nothing is unusual but that they are.

The queue's checks have passed before; an END names an open half by its latest record. Whatever else
is unusual is declined, and takes the checked path. Those that follow each other are served by
compiled code first (`serve_run`), which does the same (tests/property/test_compiled_halves.py).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

from aerobee.broker.compiled.choice import HalfWorld, half_runs
from aerobee.broker.features.transactions.ending import COMMIT, ROLLBACK, Endings, fits
from aerobee.broker.features.transactions.halves import Half, Key, OpenHalves
from aerobee.broker.features.transactions.placing import QUEUE_ID, HalfPlacer
from aerobee.broker.features.transactions.texts import COPY_BYTES_MAX, committed_text
from aerobee.broker.rules.delay_property import TIMER_PROPERTIES
from aerobee.broker.rules.system_topics import SEND_FORBIDDEN
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.runs import ServeRun
from aerobee.broker.writing.stamps import Stamp, broker_properties, stored_later
from aerobee.remoting.headers.envelopes import SendFields
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.message.layout import HOST_BITS, PROPERTIES_LENGTH_BYTES
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, Property, format_properties
from aerobee.remoting.message.record import HEAD, MIDDLES
from aerobee.remoting.words import HALF_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY

if TYPE_CHECKING:
    from aerobee.broker.compiled.plain_sends import HalfRuns

WARM_BYTES: Final = 16 << 20  # at the log's end, which the system has in memory
PLAIN_MAX: Final = 1024  # usual properties that are remembered, without both keys of a message
PLAIN_CHARACTERS_MAX: Final = 1024
KEPT_BYTES_MAX: Final = 16 << 20  # of messages that wait for a quick END
_KEPT_BYTES: Final = 200  # of one, beside its body and properties
_HALF_PREFIX: Final = bytes([len(HALF_TOPIC)]) + HALF_TOPIC.encode()  # as it stands in records
_KNOWN: Final = frozenset({Property.TRAN_MSG, Property.PGROUP, Property.UNIQ_KEY})
_UNUSUAL: Final = frozenset(
    {
        *TIMER_PROPERTIES, Property.DELAY, Property.TIMER_DEL_UNIQKEY, Property.INNER_NUM,
        Property.POP_CK, DELIVERED_PROPERTY, Property.MSG_REGION, Property.TRACE_ON,
        Property.CLUSTER, Property.REAL_TOPIC, Property.REAL_QID, Property.TRANSACTION_ID,
        Property.TRANSACTION_CHECK_TIMES, Property.TRAN_PREPARED_QUEUE_OFFSET,
        Property.CHECK_IMMUNITY_TIME_IN_SECONDS,
        Property.INNER_MULTI_DISPATCH, Property.INNER_MULTI_QUEUE_OFFSET,
    }
)  # fmt: skip


Kept = tuple[int, int, int, bytes, bytes, bytes, int]
"""Flag, sys flag, born time, stamp, body, properties and tags code of a committed message."""


Plain = tuple[str, int]
"""Group and tags code of usual properties."""


class FastHalves:
    """Appends half messages of single sends; see `FastSends`."""

    def __init__(self, live: Live, writing: Writing, endings: Endings, placer: HalfPlacer) -> None:
        self._live = live
        self._log = writing.store.commit_log
        self._is_warm = writing.store.reader.is_warm
        self._queues = writing.queues
        self._tag_hashes = writing.appender.tag_hashes
        self._tick = writing.tick
        self._endings = endings
        self._halves: OpenHalves = endings.halves
        self._now_ms = endings.clock.now_ms
        self._steady_ms = endings.clock.steady_ms
        self._placer = placer
        self._half_queue: TopicQueue | None = None
        self._kept: dict[int, Kept] = {}  # by offset; most are ended a moment later
        self._kept_bytes = 0  # of all since it was empty, also those that have ended
        self._plain: dict[tuple[str, ...], Plain] = {}  # by what is around the keys
        settings = live.current
        self._world = HalfWorld(
            log=self._log,
            tick=self._tick,
            by_key=self._halves.by_key,
            by_offset=self._halves.by_offset,
            key=Key,
            half=Half,
            told=self._told,
            unusual=tuple(sorted(name.encode() for name in _UNUSUAL)),
            body_bytes_max=min(settings.max_message_size, writing.store.settings.message_bytes_max),
            properties_bytes_max=PROPERTIES_BYTES_MAX - COPY_BYTES_MAX,
            kept_bytes_max=KEPT_BYTES_MAX,
        )
        self._runs: HalfRuns | None = None
        self.serve_run: ServeRun | None = None
        self._apply(settings)
        live.on_change(self._apply)

    def _apply(self, settings: BrokerSettings) -> None:
        """Take settings, also when they were changed at run time."""
        self._suffix = format_properties(
            broker_properties(settings.region_id, settings.trace_on, settings.broker_cluster_name)
        ).encode()
        if not settings.compiled_fast_path:
            self._runs = None  # with what it keeps
        elif self._runs is None:
            self._runs = half_runs(self._queues, self._world)
        self.serve_run = self._serve_run if self._runs is not None else None

    def append(
        self, queue: TopicQueue, fields: SendFields, body: bytes, stamp: bytes, stamp_flag: int
    ) -> tuple[int, int, bytes] | None:
        """Append one; return its position, its offset and its key, None where it is unusual."""
        properties = fields.properties
        if properties[-1:] != "\x02":
            properties += "\x02"
        before, _, rest = properties.partition("UNIQ_KEY\x01")
        unique_key, _, after = rest.partition("\x02")
        around = _around_keys(before, after)
        plain = self._plain.get(around) or self._look(properties, before, around)
        if plain is None:
            return None
        group, tags_code = plain
        halves, settings = self._halves, self._live.current
        key, encoded_key = Key(group, unique_key, queue.name), unique_key.encode()
        if (
            halves.find(key) is not None
            or not encoded_key.isalnum()
            or len(halves) >= settings.open_transactions_max
            or settings.reject_transaction_message
        ):
            return None
        own = properties.encode() + self._suffix
        end = b"__transactionId__\x01%b\x02" % encoded_key
        text = own + _place(queue.name, queue.queue_id) + end
        if len(text) > PROPERTIES_BYTES_MAX - COPY_BYTES_MAX:
            return None
        half_queue = self._half_queue
        if half_queue is None:
            half_queue = self._half_queue = self._queues.get(HALF_TOPIC, QUEUE_ID)
        stored = half_queue.stored
        offset, log = stored.max_offset, self._log
        sys_flag = (fields.sys_flag & ~ROLLBACK) | stamp_flag
        flag, born_ms = fields.flag, fields.born_timestamp
        position = log.append(stored, flag, sys_flag, born_ms, stamp, body, text, tags_code)
        size = log.position - position
        half_queue.arrived_bytes += size
        now_ms = self._now_ms()
        half = Half(key, offset, position, queue.queue_id, now_ms, now_ms, begun=position)
        self._told({key: half}, {offset: half}, [], [])
        if self._has_place(size + _KEPT_BYTES):
            self._kept[offset] = flag, sys_flag | COMMIT, born_ms, stamp, body, own + end, tags_code
        return position, offset, encoded_key

    def _has_place(self, size: int) -> bool:
        """Make place for what commits a half; whoever is large, or slow, is read from the log."""
        if size > KEPT_BYTES_MAX:
            return False
        self._kept_bytes += size
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._kept.clear()
            self._kept_bytes = size
        return True

    def _serve_run(
        self,
        data: bytes,
        at: int,
        frames_max: int,
        frame_bytes_max: int,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        /,
    ) -> tuple[int, int]:
        """Serve half messages and ENDs by compiled code; see `ServeRun`."""
        half_queue, runs = self._half_queue, self._runs
        if half_queue is None or runs is None:
            return at, 0
        settings = self._live.current
        room = max(0, settings.open_transactions_max - len(self._halves))
        if settings.reject_transaction_message:
            room = 0
        runs.begin(half_queue, self._suffix, room, self._now_ms())
        end, frames = runs.serve(data, at, frames_max, frame_bytes_max, stamp, stamp_flag, acks)
        if frames:
            self._tick.schedule()
        return end, frames

    def _told(
        self,
        opened: dict[Key, Half],
        by_offset: dict[int, Half],
        ended: list[Half],
        outcomes: list[int],
    ) -> None:
        """Take what was stored, by compiled code or here."""
        if opened:
            self._halves.add_run(opened, by_offset, self._steady_ms())
            self._placer.added()
        if ended:
            self._endings.over_run(ended, outcomes)

    def _look(self, properties: str, before: str, around: tuple[str, ...]) -> Plain | None:
        """Look at properties that are new but for their keys; None: they are unusual."""
        pairs = [pair.partition("\x01") for pair in properties[:-1].split("\x02")]
        named = {name: value for name, _, value in pairs}
        if (
            len(named) != len(pairs)
            or "" in named
            or "" in named.values()
            or not _UNUSUAL.isdisjoint(named)
            or not named.keys() >= _KNOWN
            or named["TRAN_MSG"] != "true"
            or (before and before[-1] != "\x02")  # the end of another name, or a value
        ):
            return None
        plain = named["PGROUP"], self._tag_hashes[named.get("TAGS", "")]
        if len(properties) <= PLAIN_CHARACTERS_MAX:
            if len(self._plain) >= PLAIN_MAX:
                self._plain.clear()
            self._plain[around] = plain
        return plain

    def end(self, header: EndTransactionRequest) -> bool:
        """End a transaction whose END names the latest record; False for what has to be checked."""
        half = self._halves.at(header.tran_state_table_offset)
        if half is None or not fits(header, half) or self._half_queue is None:
            return False
        outcome = header.commit_or_rollback
        if outcome not in (COMMIT, ROLLBACK):
            return True  # not known yet
        kept = self._kept.pop(half.offset, None)
        if outcome == COMMIT and not (
            self._commit_kept(half, kept) if kept else self._commit(half)
        ):
            return False
        self._endings.over(half, outcome)
        return True

    def _commit_kept(self, half: Half, kept: Kept) -> bool:
        """Append the message of a half that was stored a moment ago, as memory has it."""
        queue = self._queues.find(half.key.topic, half.queue_id)
        if queue is None:
            return False
        flag, sys_flag, born_ms, stamp, body, text, tags_code = kept
        log, begun = self._log, self._log.position
        stamp = stored_later(stamp, sys_flag, self._now_ms(), half.position)
        log.append(queue.stored, flag, sys_flag, born_ms, stamp, body, text, tags_code)
        queue.arrived_bytes += log.position - begun
        if queue.holds:
            self._tick.woken.append(queue)
        return True

    def _commit(self, half: Half) -> bool:
        """Append the message to its own queue; False where its record is not what it should be."""
        assert self._half_queue is not None
        if self._log.position - half.position > WARM_BYTES and not self._is_warm(half.position):
            return False
        position, size, tags_code = self._half_queue.stored.entry(half.offset)
        data = self._log.read(position, size)
        if len(data) != size or position != half.position:
            return False  # not committed, too
        total, _, crc, _, flag, offset, own, sys_flag, born_ms = HEAD.unpack_from(data)
        middle = MIDDLES[sys_flag & HOST_BITS]
        born_host, _, store_host, times, _, body_bytes = middle.unpack_from(data, HEAD.size)
        body_at = HEAD.size + middle.size
        topic_at = body_at + body_bytes
        text_at = topic_at + len(_HALF_PREFIX) + PROPERTIES_LENGTH_BYTES
        if (
            (total, own, offset) != (size, position, half.offset)
            or not data.startswith(_HALF_PREFIX, topic_at)
            or text_at + int.from_bytes(data[text_at - PROPERTIES_LENGTH_BYTES : text_at]) != size
            or crc32(body := data[body_at:topic_at]) & 0x7FFF_FFFF != crc
        ):
            return False
        queue = self._queues.find(half.key.topic, half.queue_id)
        if queue is None or half.key.topic in SEND_FORBIDDEN:
            return False
        text = data[text_at:]
        if b"\x02INNER_MULTI_" in text or text.startswith(b"INNER_MULTI_"):
            return False  # light queues
        stamp = Stamp(born_host, store_host).at(self._now_ms(), times, position)
        begun = self._log.position
        self._log.append(
            queue.stored,
            flag,
            (sys_flag & ~ROLLBACK) | COMMIT,
            born_ms,
            stamp,
            body,
            committed_text(text),
            tags_code,
        )
        queue.arrived_bytes += self._log.position - begun
        if queue.holds:
            self._tick.woken.append(queue)
        return True


def _around_keys(before: str, after: str) -> tuple[str, ...]:
    """Return properties without UNIQ_KEY, which stood between, and without the value of KEYS.

    Programs give each message others, so what is left comes again. A value of KEYS that is empty,
    and what only looks like that name, stays.
    """
    around = (before, after)
    for number, text in enumerate(around):
        head, found, rest = text.partition("KEYS\x01")
        if found:
            value, ended, tail = rest.partition("\x02")
            if not value or not ended or (head and head[-1] != "\x02"):
                break
            return (*around[:number], head, tail, *around[number + 1 :])
    return around


@lru_cache(maxsize=1024)
def _place(topic: str, queue_id: int) -> bytes:
    """Return the properties that say where a half message goes."""
    return b"REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (topic.encode(), queue_id)
