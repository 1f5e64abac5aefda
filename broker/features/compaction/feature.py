"""Compaction topics as a feature: what is copied when, what pulls read, and who is told of it."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from aerobee.broker.features.compaction.copying import Copying
from aerobee.broker.features.compaction.pacing import Threads
from aerobee.broker.features.compaction.schedule import ROUNDS_SHOWN_MAX, Schedule
from aerobee.broker.features.compaction.views import CopyView
from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.room import Sample, Work
from aerobee.broker.rules.attributes import is_compacted
from aerobee.remoting.bodies import TopicConfig
from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Gone
from aerobee.storage.features.compaction.copies import Copies
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.units import CompactionSettings

log = logging.getLogger(__name__)

LOOK_S: Final = 0.5
SYNC_S: Final = 10.0
LAST_COPIES_S: Final = 30.0  # a stop takes no longer for them
QueueName = tuple[str, int]


class Compaction(Feature):
    """Topics with `cleanup.policy=COMPACTION`; switched off by `enableCompaction=false`."""

    def __init__(self, parts: Parts) -> None:
        settings = parts.live.current
        self._store = store = parts.writing.store
        self._topics = parts.tables.topics
        asking = parts.asking
        self._kept = {
            each.topic_name
            for each in self._topics
            if is_compacted(each) and (asking is None or each.topic_name != asking.topic_name)
        }
        self._leaving: dict[str, asyncio.Future[None]] = {}  # topics whose copies are being removed
        self._refused: dict[
            str, Exception
        ] = {}  # those of them whose copies the disk did not let go
        self._made_again: dict[
            str, int
        ] = {}  # those that are there again, from positions of the log
        sizes = CompactionSettings(
            file_bytes_wanted=settings.compaction_mapped_file_size,
            unit_file_bytes_wanted=settings.compaction_cq_mapped_file_size,
            map_bytes_max=settings.max_offset_map_size,
            rounds_max=settings.rounds_max,
        )
        self.copies = Copies(store.files, store.settings.root, sizes)
        self._thread = Threads(1)
        self.copying = Copying(store, self.copies, self._names, self._run)
        self.schedule = Schedule(parts.live, store, self.copies, self._names)
        self.passed_over = 0
        self._syncing = False
        self._unsynced: Exception | None = None  # why the last sync has failed
        self._used = asyncio.Event()
        if self._kept:
            self._used.set()
        if not store.read_only:
            store.retention.kept_from = self._kept_from
            store.checkpoints.before_last.append(self._copy_the_rest)
        parts.cold.views.use(self)
        self._topics.on_changed.append(self._topic_changed)
        self._topics.on_deleted.append(self._topic_deleted)
        if asking is not None:
            self._topic_changed(asking)

    @property
    def topics(self) -> Collection[str]:
        """The topics that keep the latest message of each key."""
        return self._kept

    def view(self, topic: str, queue_id: int) -> CopyView | None:
        """Return what there is of a queue beside it."""
        queue = self._store.find_queue(topic, queue_id)
        if queue is None or topic in self._leaving:
            return None
        copy, source = self.copies.queue(topic, queue_id), None
        if not copy.loaded:
            source = CopySource(
                self._store.files, self._store.commit_log.snapshot(), queue.snapshot()
            )
        bounds = queue.min_offset, queue.max_offset
        return CopyView(queue_id, copy, bounds, source, self._passed)

    async def removed(self, topic: str) -> None:
        """Return when nothing is left of a deleted topic; OSError where the disk refuses."""
        if (leaving := self._leaving.get(topic)) is not None:
            await asyncio.shield(leaving)

    async def clean(self) -> None:
        """Remove copies of topics that were deleted while nobody looked after them; OSError."""
        left = [each for each in self.copies.topics() if each not in self._kept]
        for topic in left:
            self._remove(topic)
        for topic in left:
            await self.removed(topic)

    async def start(self) -> None:
        """Remove what a killed broker has left of deleted topics; name copies of no topic."""
        if not self._store.read_only and self.copies.has_removed():
            self._run(self.copies.clear_removed, lambda _: None)
        for topic in self.copies.topics():
            if topic not in self._kept:
                log.warning(
                    "compaction_copies_of_no_topic topic=%s advice='mqadmin cleanUnusedTopic (316)"
                    " removes them'",
                    topic,
                )

    def background(self) -> Iterable[Work]:
        """Copy, have the disk take it, and run rounds."""
        if self._store.read_only:
            return ()
        return (Work("compaction", self._go_on),)

    async def stop(self) -> None:
        """Begin nothing more, and wait for what writes copies."""
        self.schedule.close()
        try:
            async with asyncio.timeout(LAST_COPIES_S):
                await self.schedule.idle()
                await self._thread.idle()
        except TimeoutError:
            log.error("compaction_threads_stay seconds=%.0f", LAST_COPIES_S)
        self._thread.close()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of copies and rounds."""
        return {
            "aerobee_compaction_topics": "Topics that keep the latest message of each key",
            "aerobee_compaction_queues_behind": "Their queues with messages not yet safely copied",
            "aerobee_compaction_queues_failing": "Their queues whose copies the disk refuses",
            "aerobee_compaction_rounds_total": "Rounds that have rewritten a copy",
            "aerobee_compaction_rounds_failed_total": "Rounds that failed; the copy is as it was",
            "aerobee_compaction_dropped_total": "Messages left out as not their key's latest",
            "aerobee_compaction_freed_bytes_total": "Bytes of records that rounds left out",
            "aerobee_compaction_damaged_total": "Records of copies that were damaged",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield their numbers."""
        yield Sample("aerobee_compaction_topics", len(self.topics))
        yield Sample("aerobee_compaction_queues_behind", self.copying.behind)
        yield Sample("aerobee_compaction_queues_failing", len(self.copying.failures))
        yield Sample("aerobee_compaction_rounds_total", self.schedule.rounds)
        yield Sample("aerobee_compaction_rounds_failed_total", self.schedule.failed)
        yield Sample("aerobee_compaction_dropped_total", self.schedule.dropped)
        yield Sample("aerobee_compaction_freed_bytes_total", self.schedule.freed_bytes)
        yield Sample("aerobee_compaction_damaged_total", self.schedule.damaged + self.passed_over)

    def shown(self) -> Mapping[str, Any]:
        """Return what `/api/broker` says of copies and rounds, the newest of them."""
        failing = islice(self.copying.failures.items(), ROUNDS_SHOWN_MAX)
        return {
            "compaction": {
                "topics": len(self._kept),
                "queuesBehind": self.copying.behind,
                "roundsRunning": self.schedule.running,
                "rounds": self.schedule.rounds,
                "roundsFailed": self.schedule.failed,
                "freedBytes": self.schedule.freed_bytes,
                "latest": [msgspec.to_builtins(each) for each in reversed(self.schedule.latest)],
                "queuesFailing": len(self.copying.failures),
                "failing": [
                    {"topic": topic, "queueId": queue_id, "error": str(error)}
                    for (topic, queue_id), error in failing
                ],
            }
        }

    def degraded(self) -> Iterator[str]:
        """Yield why the log cannot let go of what is not copied, if that is so."""
        if self._refused:
            topic, refusal = next(iter(self._refused.items()))
            yield (
                f"copies of {len(self._refused)} deleted topics are still there, the first of"
                f" {topic}: {refusal}; topics made again under these names keep the log meanwhile"
            )
        if self._unsynced is not None:
            yield (
                f"copies of compaction topics do not come to the disk: {self._unsynced};"
                " the log is kept meanwhile, however full its disk"
            )
        failures = self.copying.failures
        if failures:
            (topic, queue_id), error = next(iter(failures.items()))
            yield (
                f"messages of {len(failures)} queues of compaction topics are not copied, the first"
                f" {topic}-{queue_id}: {error}; the log is kept meanwhile, however full its disk"
            )

    def _names(self) -> Iterator[QueueName]:
        """Yield the queues of these topics."""
        for topic in list(self._kept):
            config = self._topics.get(topic)
            if config is not None and topic not in self._leaving:
                for number in range(max(config.write_queue_nums, config.read_queue_nums)):
                    yield topic, number

    def _kept_from(self) -> int | None:
        """Return the position behind which the log is still needed, None where it is not."""
        if not self._kept:
            return None
        return min(self.copying.kept_from(), *self._made_again.values(), 1 << 62)

    def _run(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        if not self._thread.run(work, lambda _, error: done(error)):
            done(OSError("no thread can be had"))

    def _passed(self, count: int) -> None:
        self.passed_over += count

    async def _go_on(self) -> None:
        """Look after copies and rounds from the first such topic on; without one nothing turns."""
        await self._used.wait()
        sync_s = time.monotonic() + SYNC_S
        while True:
            self.copying.look()
            self.schedule.look()
            if time.monotonic() >= sync_s:
                sync_s = time.monotonic() + SYNC_S
                self.sync()
                for topic in list(self._refused):
                    self._remove(topic)
            await asyncio.sleep(LOOK_S)

    def sync(self) -> None:
        """Have the disk take what was copied, and note it; the log needs to keep less then."""
        dirty = self.copying.dirty()
        if not self.copying.behind:  # what could not be synced is of a topic that is no more
            self._unsynced = None
        if dirty and not self._syncing:
            self._syncing = True
            self._run(lambda: self._sync_all(dirty), self._synced)

    def _sync_all(self, dirty: list[tuple[QueueName, CopiedQueue]]) -> None:
        ends: dict[QueueName, int] = {}
        failed: OSError | None = None
        for name, copy in dirty:
            try:
                ends[name] = copy.sync()
            except Gone:
                continue
            except OSError as error:  # others are synced and noted all the same
                failed = failed or error
        self.copies.note_copied(ends)
        if failed is not None:
            raise failed

    def _synced(self, error: Exception | None) -> None:
        self._syncing, self._unsynced = False, error
        if error is not None:
            log.error("compaction_sync_failed error=%s", error)
        self.copying.synced()

    def _copy_the_rest(self) -> None:
        """Copy what is left while the store closes, so that RocketMQ finds all of it."""
        until_s, behind = time.monotonic() + LAST_COPIES_S, 0
        dirty: list[tuple[QueueName, CopiedQueue]] = []
        for name in self._names():
            try:
                before = -1
                while (job := self.copying.job(name)) is not None and job.copy.end > before:
                    before = job.copy.end
                    if time.monotonic() > until_s:
                        break
                    job.run()
                behind += self.copying.job(name) is not None
            except Exception as error:  # noqa: BLE001  others are copied all the same
                behind += 1
                log.error("compaction_copy_failed topic=%s queue=%d error=%s", *name, error)
            copy = self.copies.queue(*name)
            if copy.loaded and copy.end > copy.synced_end:
                dirty.append((name, copy))
        try:
            if dirty:
                self._sync_all(dirty)
        except OSError as error:
            log.error("compaction_sync_failed error=%s", error)
        if behind:
            log.warning("compaction_copies_behind queues=%d", behind)

    def _topic_changed(self, config: TopicConfig) -> None:
        name = config.topic_name
        if not is_compacted(config) or name in self._kept:
            return
        committed = self._store.commit_log.committed
        if name in self._leaving or self.copies.has(name):  # a broker was killed as it was deleted
            self._remove(name)
            self._made_again[name] = committed
        if not self._kept:
            self.copying.begin_at(committed)
        self._kept.add(name)
        self._used.set()

    def _topic_deleted(self, config: TopicConfig) -> None:
        name = config.topic_name
        if name in self._kept:
            self._kept.discard(name)
            self._made_again.pop(name, None)
            self.copying.forget(name)
            self._remove(name)

    def _remove(self, topic: str) -> None:
        """Remove a topic's copies; a new topic so called is copied when they are gone.

        Until then the log has all of that.
        """
        before = self._leaving.get(topic)
        if before is not None and not before.done():
            return  # nothing has come to them since
        leaving = self._leaving[topic] = asyncio.get_running_loop().create_future()
        queues = self.copies.drop(topic)

        def removed(error: Exception | None) -> None:
            self.copies.drop(topic)
            if error is None:
                self._leaving.pop(topic, None)
                if self._refused.pop(topic, None) is not None:
                    log.info("compaction_copies_removed topic=%s", topic)
                if (position := self._made_again.pop(topic, None)) is not None:
                    self.copying.begin_at(min(position, self.copying.kept_from()))
                leaving.set_result(None)
            else:  # nothing is copied or read of a topic so called until they are gone
                if topic not in self._refused:
                    log.error("compaction_copies_not_removed topic=%s error=%s", topic, error)
                self._refused[topic] = error
                leaving.set_exception(error)
                leaving.exception()  # whoever waits hears of it; perhaps nobody does

        self._run(lambda: self.copies.remove(topic, queues), removed)


make = Compaction
