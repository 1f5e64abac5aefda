"""Batch queues as a feature: which topics have them, how batches come in, RocketMQ's files."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aerobee.broker.features.batch_queues.following import UnitFollower
from aerobee.broker.features.batch_queues.placing import InnerBatches
from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.room import Sample, Work
from aerobee.broker.rules.attributes import is_batched
from aerobee.remoting.bodies import TopicConfig
from aerobee.storage.errors import StoreError
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
QUEUES_PER_LOOK: Final = 64  # whose units are written, and synced, by one look
LAST_UNITS_S: Final = 30.0  # a stop takes no longer for them
QueueName = tuple[str, int]


class BatchQueues(Feature):
    """Topics with `queue.type=BatchCQ`; without one nothing turns."""

    def __init__(self, parts: Parts) -> None:
        self._store = store = parts.writing.store
        topics = parts.tables.topics
        self._batched = {each.topic_name for each in topics if is_batched(each)}
        for topic in self._batched:
            store.queues.note_batched(topic)
        self._followers: dict[QueueName, UnitFollower] = {}
        self._left: list[UnitFiles] = []  # of topics that were deleted
        self._last: QueueName = ("", -1)  # whose units were written last
        self._used = asyncio.Event()
        if self._batched:
            self._used.set()
        self.failures: dict[QueueName, Exception] = {}
        self._batches = parts.writing.inner_batches = InnerBatches(parts.writing)
        topics.on_changed.append(self._topic_changed)
        topics.on_deleted.append(self._topic_deleted)
        if not store.read_only:
            store.checkpoints.before_last.append(self._write_the_rest)

    def background(self) -> Iterable[Work]:
        """Write units behind the entries."""
        return () if self._store.read_only else (Work("batch queues", self._go_on),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of batches."""
        return {
            "aerobee_batch_queue_topics": "Topics that store a batch as one record",
            "aerobee_batch_queue_batches_total": "Batches that were stored as one record",
            "aerobee_batch_queue_messages_total": "Messages of those batches",
            "aerobee_batch_queue_failing": "Queues whose units for RocketMQ cannot be written",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield their numbers."""
        yield Sample("aerobee_batch_queue_topics", len(self._batched))
        yield Sample("aerobee_batch_queue_batches_total", self._batches.stored)
        yield Sample("aerobee_batch_queue_messages_total", self._batches.messages)
        yield Sample("aerobee_batch_queue_failing", len(self.failures))

    def _topic_changed(self, config: TopicConfig) -> None:
        name = config.topic_name
        if is_batched(config) and name not in self._batched:
            self._batched.add(name)
            self._store.queues.note_batched(name)
            self._used.set()

    def _topic_deleted(self, config: TopicConfig) -> None:
        name = config.topic_name
        if name not in self._batched:
            return
        self._batched.discard(name)
        self._store.queues.forget_batched(name)
        for key in [key for key in self._followers if key[0] == name]:
            self._left.append(self._followers.pop(key).files)
            self.failures.pop(key, None)

    def _behind(self) -> list[tuple[QueueName, UnitFollower]]:
        """Return the queues that have messages without a unit, in turn: the one after the last
        that was written comes first."""
        found = []
        for queue in self._store.queues.of_topics(self._batched) if self._batched else ():
            key = (queue.topic, queue.queue_id)
            follower = self._followers.get(key)
            if follower is None or follower.queue is not queue:
                follower = self._followers[key] = UnitFollower(self._store, queue)
            if queue.max_offset and follower.behind:
                found.append((key, follower))
        found.sort(key=lambda each: (each[0] <= self._last, each[0]))
        return found

    async def _go_on(self) -> None:
        await self._used.wait()
        while True:
            await asyncio.sleep(LOOK_S)
            await self._remove_left()
            for key, follower in self._behind()[:QUEUES_PER_LOOK]:
                self._last = key
                await self._follow(key, follower)

    async def _remove_left(self) -> None:
        while self._left:
            files = self._left.pop()
            try:
                await asyncio.to_thread(files.remove)
            except OSError as error:  # a start finds that they are of a topic that was deleted
                log.error("batch_units_not_removed path=%s error=%s", files.directory, error)

    async def _follow(self, key: QueueName, follower: UnitFollower) -> None:
        try:
            found = follower.collect()
            await asyncio.to_thread(follower.write, *found)
        except (OSError, StoreError) as error:
            self._failed(key, error)
        else:
            self.failures.pop(key, None)

    def _failed(self, key: QueueName, error: Exception) -> None:
        if key not in self.failures:
            log.error("batch_units_not_written topic=%s queue=%d error=%s", *key, error)
        self.failures[key] = error

    def _write_the_rest(self) -> None:
        """Write what is left while the store closes, so that RocketMQ finds all of it."""
        until_s = time.monotonic() + LAST_UNITS_S
        for files in self._left:
            try:
                files.remove()
            except OSError as error:
                log.error("batch_units_not_removed path=%s error=%s", files.directory, error)
        for key, follower in self._behind():
            try:
                while follower.behind and time.monotonic() < until_s:
                    before = follower.next_offset
                    follower.write(*follower.collect())
                    if follower.next_offset == before:
                        break
            except (OSError, StoreError) as error:
                self._failed(key, error)
        if behind := len(self._behind()):
            log.warning("batch_units_behind queues=%d", behind)


make = BatchQueues
