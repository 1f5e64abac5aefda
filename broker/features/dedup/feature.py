"""Retries that are stored once, as a feature: topics that ask for it, their keys, their file."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.broker.features.dedup.recovery import KeyRecovery
from aerobee.broker.features.dedup.saving import Saving
from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.room import Sample, Work
from aerobee.remoting.clocks import wall_clock_ms

log = logging.getLogger(__name__)

SAVE_INTERVAL_S: Final = 30.0
SWEEP_INTERVAL_S: Final = 1.0
SWEPT_AT_ONCE: Final = 10_000  # keys; a millisecond


class Dedup(Feature):
    """Topics with the attribute `aerobee.dedup.seconds`; switched off by `dedupEntriesMax=0`."""

    def __init__(self, parts: Parts) -> None:
        writing, topics = parts.writing, parts.tables.topics
        self._store = writing.store
        self.firsts = TopicFirsts(parts.live, writing, parts.cold.lookups, wall_clock_ms)
        self._recovery = KeyRecovery(
            self._store, parts.cold.reads, parts.cold.lookups.files, self.firsts
        )
        self._saving = Saving(self._store, self.firsts)
        for config in topics:
            self.firsts.follow(config)
        topics.on_changed.append(self.firsts.follow)
        topics.on_deleted.append(lambda config: self.firsts.forget_topic(config.topic_name))
        writing.firsts = self.firsts
        if parts.asking is not None:  # what comes from now on counts
            self.firsts.begin()

    def close(self) -> OSError | None:
        """Write the snapshot, unless it is not known yet what the log has."""
        return self._saving.save_now() if self.firsts.ready.is_set() else None

    def background(self) -> Iterable[Work]:
        """Find out what the log has, then save it now and then; let go of what is too old."""
        return (
            Work("unique keys", self._keep),
            Work("old unique keys", self._sweep, SWEEP_INTERVAL_S),
        )

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of keys, windows and duplicates."""
        return {
            "aerobee_dedup_keys": "Unique keys that are known, of all topics",
            "aerobee_dedup_topic_keys": "Unique keys of a topic that are known, old ones too",
            "aerobee_dedup_window_seconds": "How far back a topic's unique keys are known",
            "aerobee_dedup_duplicates_total": "Sends answered with the result of the first",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many keys are known, and by topic how far back and what they were good for."""
        firsts = self.firsts
        if not firsts.numbers:
            return
        yield Sample("aerobee_dedup_keys", firsts.keys.count)
        for topic, number in firsts.numbers.items():
            labels = {"topic": topic}
            yield Sample("aerobee_dedup_topic_keys", firsts.keys.state(number)[0], labels)
            yield Sample("aerobee_dedup_window_seconds", firsts.window_ms(topic) / 1000, labels)
            yield Sample("aerobee_dedup_duplicates_total", firsts.duplicates[topic], labels)

    async def _keep(self) -> None:
        if not self.firsts.ready.is_set():
            await self._recovery.run()
            self.firsts.begin()
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            await self._saving.save()

    def _sweep(self) -> None:
        """Let keys go whose time is over, whose topic asks no more, or whose log has gone."""
        firsts, now_ms = self.firsts, self.firsts.now_ms()
        if not firsts.ready.is_set() or not (firsts.numbers or firsts.retired):
            return
        keys, left = firsts.keys, SWEPT_AT_ONCE
        left -= keys.trim(self._store.commit_log.begin, left)
        for number in firsts.numbers.values():
            left -= keys.expire(number, now_ms, left)
        for number in firsts.retired:
            left -= keys.expire(number, now_ms, left)
        firsts.retired = [number for number in firsts.retired if keys.state(number)[0]]


make = Dedup
