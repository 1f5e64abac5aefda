"""Which message of a topic was the first of its unique key, as far as its window reaches."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.compiled.choice import seen_keys
from aerobee.broker.features.dedup.seen_keys import PythonSeenKeys
from aerobee.broker.rules.attributes import dedup_window_ms
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.firsts import SeenKeys, key_of
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import Record, decode_record

log = logging.getLogger(__name__)

READY_WAIT_S: Final = 2.0
"""How long a send waits until it is known what the log has; clients wait for 3 s."""


class TopicFirsts:
    """The keys of the topics whose attribute asks for it; nothing is allocated before one does.

    A topic that is deleted, or no longer asks, is forgotten at once: its keys go by and by, and one
    that asks again gets another number. So what was known of a topic's earlier life never counts.
    """

    def __init__(
        self,
        live: Live,
        writing: Writing,
        lookups: Lookups,
        now_ms: Callable[[], int],
    ) -> None:
        self._live = live
        self._writing = writing
        self._lookups = lookups
        self.now_ms = now_ms
        self._keys: SeenKeys | None = None
        self.numbers: dict[str, int] = {}
        self.windows_ms: dict[str, int] = {}
        self.retired: list[int] = []
        self.duplicates: Counter[str] = Counter()
        self.refused = 0  # sends: it was not known in time what the log has, or the disk refused
        self.no_memory: str | None = None  # what the machine said when topics asked
        self.ready = asyncio.Event()  # it is known what the log has

    @property
    def entries_max(self) -> int:
        """For how many keys there is room."""
        return self._live.current.dedup_entries_max

    @property
    def keys(self) -> SeenKeys:
        """The table of keys, made when it is first needed."""
        if self._keys is None:
            settings = self._live.current
            entries_max, wanted = settings.dedup_entries_max, settings.compiled_fast_path
            compiled = seen_keys(entries_max, wanted=wanted)
            self._keys = PythonSeenKeys(entries_max) if compiled is None else compiled
        return self._keys

    def follow(self, config: TopicConfig) -> None:
        """Take what a topic's attribute says now."""
        topic, window_ms = config.topic_name, window_of(config)
        number = self.numbers.get(topic)
        if not window_ms:
            self.forget_topic(topic)
        elif number is None:
            try:
                self.numbers[topic] = self.keys.add_topic(window_ms)
            except MemoryError as error:  # the next change of a topic tries again
                self.no_memory = f"{error}, dedupEntriesMax is too large for this machine"
                log.error("retries_stored_twice topic=%s reason=%r", topic, self.no_memory)
                return
            self.no_memory = None
            log.info("retries_stored_once topic=%s window_ms=%d", topic, window_ms)
        elif self.windows_ms[topic] != window_ms:
            self.keys.set_window(number, window_ms)
        if window_ms:
            self.windows_ms[topic] = window_ms
            if self.ready.is_set():
                self._writing.queues.watched[topic] = (self.keys, self.numbers[topic])

    def forget_topic(self, topic: str) -> None:
        """Watch a topic no more, whose attribute has gone, or itself."""
        number = self.numbers.pop(topic, None)
        if number is None:
            return
        self._writing.queues.watched.pop(topic, None)
        del self.windows_ms[topic]
        self.duplicates.pop(topic, None)
        self.keys.set_window(number, -1)
        self.retired.append(number)
        log.info("retries_stored_twice topic=%s", topic)

    def begin(self) -> None:
        """Answer sends: it is known what the log has."""
        self.ready.set()
        for topic, number in self.numbers.items():
            self._writing.queues.watched[topic] = (self.keys, number)
        self._writing.queues.forget_checks()  # what had no key was stored, its queue not watched

    def watches(self, topic: str) -> bool:
        """Whether a topic stores a retry once."""
        return topic in self.numbers

    def known(self, topic: str, unique_key: str, now_ms: int) -> bool:
        """Whether the first of a key may be there, as `first` tells; True until all is known."""
        if not self.ready.is_set():
            return True
        return self._position(topic, unique_key, now_ms) >= 0

    async def first(self, topic: str, unique_key: str) -> Record | None:
        """Return the record of the first message that has a key, None where there is none.

        Only a record that proves itself counts (storage/FORMAT.md), that is of this topic and has
        this key; the key of any other is forgotten.
        """
        await self._until_ready(topic)
        position = self._position(topic, unique_key, self.now_ms())
        if position < 0:
            return None
        try:
            await self._lookups.warm_record(position)
        except OSError as error:
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[TIMEOUT_CLEAN_QUEUE]broker busy, the disk does not give the first message of"
                f" {unique_key}: {error}",
            ) from error
        record = self._proven(position)
        if record is not None and is_first(record, topic, unique_key):
            return record
        self.forget(topic, unique_key, position)
        return None

    def forget(self, topic: str, unique_key: str, position: int) -> None:
        """Let a key be free again, unless another message has it by now."""
        if self._position(topic, unique_key, self.now_ms()) == position:
            self.keys.forget(self.numbers[topic], key_of(unique_key))

    def put(self, topic: str, unique_key: str, position: int, now_ms: int) -> None:
        """Note a message that was appended, behind all others, and committed."""
        self.keys.put(self.numbers[topic], key_of(unique_key), position, now_ms)

    def answered(self, topic: str) -> None:
        """Count a duplicate."""
        self.duplicates[topic] += 1

    def window_ms(self, topic: str) -> int:
        """Return how far back (ms) a topic's keys are known: a window, or less by want of room."""
        evicted_ms = self.keys.state(self.numbers[topic])[2]
        window_ms = self.windows_ms[topic]
        return window_ms if evicted_ms < 0 else min(window_ms, self.keys.clock_ms - evicted_ms)

    def short_windows(self) -> list[str]:
        """List the topics whose keys are known for less than they ask."""
        if not self.numbers or not self.keys.evicted:
            return []
        return [topic for topic in self.numbers if self.window_ms(topic) < self.windows_ms[topic]]

    def oldest_ms(self) -> int | None:
        """Return when the oldest key that is known came, None without any."""
        came = [self.keys.state(number)[1] for number in self.numbers.values()]
        return min((each for each in came if each >= 0), default=None)

    def _position(self, topic: str, unique_key: str, now_ms: int) -> int:
        number = self.numbers.get(topic)
        return -1 if number is None else self.keys.find(number, key_of(unique_key), now_ms)

    def _proven(self, position: int) -> Record | None:
        """Return the record at a position, without its body; None where it is lost or damaged."""
        self._writing.tick.commit_log()
        try:
            found = self._writing.store.record_at(position)
            return None if found is None else decode_record(found, body=False)
        except CorruptRecord as error:
            log.warning("first_is_damaged position=%d reason=%r", position, str(error))
            return None

    async def _until_ready(self, topic: str) -> None:
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self.ready.wait()
        except TimeoutError:
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, the unique keys"
                f" of topic {topic} are being read",
            ) from None


def window_of(config: TopicConfig) -> int:
    """Return for how long (ms) a topic stores a retry once; groups' topics never do."""
    return 0 if config.topic_name.startswith("%") else dedup_window_ms(config.attributes)


def is_first(record: Record, topic: str, unique_key: str) -> bool:
    """Whether a record is of a topic, or waits to be, and has a unique key."""
    if find_property(record.properties, Property.UNIQ_KEY) != unique_key:
        return False
    return topic == record.topic or topic == find_property(record.properties, Property.REAL_TOPIC)
