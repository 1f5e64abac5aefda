"""Topics with a retention of their own as a feature: looks at them now and then."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.topic_retention.expiring import Expiring
from aerobee.broker.room import Sample, Work
from aerobee.broker.rules.attributes import RETENTION_SECONDS, is_compacted
from aerobee.broker.rules.system_topics import is_system_topic
from aerobee.remoting.bodies import TopicConfig
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.upkeep.wall_time import WallTime

log = logging.getLogger(__name__)

TOPICS_SHOWN_MAX: Final = 100
TOLD_PER_TURN: Final = 100  # lines of the log, one for each topic: some milliseconds
HIDDEN_PER_NOTE: Final = 500  # topics of one turn of the loop: some milliseconds, and a sync
QUEUES_PER_LOOK: Final = 64  # of one turn of a thread; other lookups come in between


class TopicRetention(Feature):
    """Moves queues past what their topic has kept for long enough; see README.md."""

    def __init__(self, parts: Parts) -> None:
        self._live = parts.live
        self._store = parts.writing.store
        self._lookups = parts.cold.lookups
        self._topics = parts.tables.topics
        self._kept_s: dict[str, int] = {}
        self._expired: dict[str, int] = {}  # messages, since the start
        self._troubled = ""
        self.time = WallTime()
        for config in self._topics:
            self._follow(config)
        self._topics.on_changed.append(self._follow)
        self._topics.on_deleted.append(self._forget)
        self._changed = asyncio.Event()  # settings were, while it waits
        self._live.on_change(lambda _: self._changed.set())

    def background(self) -> Iterable[Work]:
        """Look at the topics now and then."""
        return (Work("topic retention", self._look_again),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of topics that have the attribute."""
        return {
            "aerobee_topic_retention_seconds": "How long a topic shows its messages, where it says",
            "aerobee_topic_expired_messages_total": "Messages that went before their log files did",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield the times that hold, and how many messages went."""
        for topic, kept_s in list(self._kept_s.items()):
            yield Sample("aerobee_topic_retention_seconds", kept_s, {"topic": topic})
        for topic, count in list(self._expired.items()):
            yield Sample("aerobee_topic_expired_messages_total", count, {"topic": topic})

    def shown(self) -> Mapping[str, Any]:
        """Return what `/api/broker` says of such topics, the first of them."""
        return {
            "topicRetention": {
                "topics": len(self._kept_s),
                "expired": sum(self._expired.values()),
                "error": self._troubled,
                "first": [
                    {"topic": topic, "seconds": seconds, "expired": self._expired.get(topic, 0)}
                    for topic, seconds in islice(self._kept_s.items(), TOPICS_SHOWN_MAX)
                ],
            }
        }

    def degraded(self) -> Iterator[str]:
        """Yield why messages do not go, where the disk refuses."""
        if self._troubled:
            yield f"messages of topics with a retention of their own do not go: {self._troubled}"

    async def look(self) -> None:
        """Move the queues of all such topics on; OSError: the disk refuses, and others follow.

        A note says it of HIDDEN_PER_NOTE of them at a time; where one is refused, those of before
        stay hidden.
        """
        now_s = self.time.now()
        if now_s is None or not self._live.current.topic_retention_enable:
            return
        if self._store.read_only or not self._kept_s:
            return
        end = self._store.commit_log.flushed_position
        found, failed = Expiring(end), None
        for queues in self._portions():
            asked = [
                (queue.snapshot(), queue.topic, int((now_s - kept_s) * 1000))
                for queue in queues
                if (kept_s := self._kept_s.get(queue.topic)) is not None
            ]
            failed = await self._lookups.beside(partial(found.look, asked)) or failed
        expired = iter([(topic, count) for topic, count in found.expired.items() if count])
        while portion := list(islice(expired, HIDDEN_PER_NOTE)):
            there = {topic: count for topic, count in portion if topic in self._kept_s}
            if there:  # others were deleted meanwhile
                await self._hide(there, found.positions)
        if failed is not None:
            raise failed

    def _portions(self) -> Iterator[list[ConsumeQueue]]:
        """Yield the queues of all such topics, some at a time; they may change meanwhile."""
        find = self._store.queues.of_topics
        queues = chain.from_iterable(find((topic,)) for topic in list(self._kept_s))
        while portion := list(islice(queues, QUEUES_PER_LOOK)):
            yield portion

    async def _hide(self, expired: Mapping[str, int], positions: Mapping[str, int]) -> None:
        self._store.retention.hide_before({topic: positions[topic] for topic in expired})
        for topic, count in expired.items():
            self._expired[topic] = self._expired.get(topic, 0) + count
        await asyncio.sleep(0)
        for told, (topic, count) in enumerate(expired.items(), 1):
            log.info("messages_expired topic=%s count=%d before=%d", topic, count, positions[topic])
            if told % TOLD_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _look_again(self) -> None:
        while True:
            await self._interval()
            try:
                await self.look()
                self._troubled = ""
            except OSError as error:  # the next round tries again
                if not self._troubled:
                    log.error("topic_retention_failed error=%s", error)
                self._troubled = str(error)

    async def _interval(self) -> None:
        """Return when it is time for a look, by the setting as it is then."""
        clock_s = asyncio.get_running_loop().time
        began_s = clock_s()
        while True:
            due_s = began_s + self._live.current.clean_resource_interval / 1000
            if (left_s := due_s - clock_s()) <= 0:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    def _follow(self, config: TopicConfig) -> None:
        """Take what a topic says now; what has expired once stays so."""
        name, value = config.topic_name, (config.attributes or {}).get(RETENTION_SECONDS, "")
        sound = value.isascii() and value.isdecimal() and len(value) <= 18  # who knows who wrote it
        kept_s = int(value) if sound and not is_compacted(config) else 0
        if kept_s and not is_system_topic(name, self._live.current):
            self._kept_s[name] = kept_s
        else:
            self._forget(config)

    def _forget(self, config: TopicConfig) -> None:
        self._kept_s.pop(config.topic_name, None)
        self._expired.pop(config.topic_name, None)


make = TopicRetention
