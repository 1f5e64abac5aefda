"""Retries that are stored once, as a feature: topics that ask for it, their keys, their file."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

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
        self._live = parts.live
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
            "aerobee_dedup_keys_max": "... for how many there is room (dedupEntriesMax)",
            "aerobee_dedup_evicted_total": "... that went before their time, for want of room",
            "aerobee_dedup_oldest_key_seconds": "How long ago the oldest of them came",
            "aerobee_dedup_refused_total": "Sends that were refused: the log was still being read,"
            " or the disk did not give the first message",
            "aerobee_dedup_topic_keys": "Unique keys of a topic that are known, old ones too",
            "aerobee_dedup_window_seconds": "How far back a topic's unique keys are known",
            "aerobee_dedup_duplicates_total": "Sends answered with the result of the first",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many keys are known, and by topic how far back and what they were good for."""
        firsts = self.firsts
        if not firsts.numbers:
            return
        keys = firsts.keys
        yield Sample("aerobee_dedup_keys", keys.count)
        yield Sample("aerobee_dedup_keys_max", firsts.entries_max)
        yield Sample("aerobee_dedup_evicted_total", keys.evicted)
        yield Sample("aerobee_dedup_refused_total", firsts.refused)
        if (oldest_ms := firsts.oldest_ms()) is not None:
            yield Sample("aerobee_dedup_oldest_key_seconds", (keys.clock_ms - oldest_ms) / 1000)
        for topic, number in list(firsts.numbers.items()):
            if firsts.numbers.get(topic) != number:
                continue  # it was deleted meanwhile
            labels = {"topic": topic}
            yield from (  # read at once: it may be deleted between two of them, too
                Sample("aerobee_dedup_topic_keys", keys.state(number)[0], labels),
                Sample("aerobee_dedup_window_seconds", firsts.window_ms(topic) / 1000, labels),
                Sample("aerobee_dedup_duplicates_total", firsts.duplicates[topic], labels),
            )

    def shown(self) -> Mapping[str, Any]:
        """Return what is known, what it was good for, and what is in its way."""
        firsts = self.firsts
        asked = bool(firsts.numbers)
        dedup = {
            "topics": len(firsts.numbers),
            "known": firsts.ready.is_set(),
            "keys": firsts.keys.count if asked else 0,
            "keysMax": firsts.entries_max,
            "oldestMs": firsts.oldest_ms() if asked else None,
            "duplicates": firsts.duplicates.total(),
            "evicted": firsts.keys.evicted if asked else 0,
            "shortWindows": len(firsts.short_windows()),
            "refused": firsts.refused,
            "notSavedBecause": str(self._saving.error) if self._saving.error else None,
        }
        return {"dedup": dedup}

    def degraded(self) -> Iterator[str]:
        """Yield why retries are stored twice, or a start will have to read more."""
        firsts = self.firsts
        if firsts.no_memory is not None:
            yield f"retries are stored twice: {firsts.no_memory}"
        if short := firsts.short_windows():
            topic = min(short, key=firsts.window_ms)
            yield (
                f"retries are stored once for a shorter time than {len(short)} topics ask, such as"
                f" {firsts.window_ms(topic) / 1000:g} of {firsts.windows_ms[topic] / 1000:g} s in"
                f" {topic}: dedupEntriesMax is {firsts.entries_max}"
            )
        kept_hours = self._live.current.file_reserved_time
        if max(firsts.windows_ms.values(), default=0) >= kept_hours * 3_600_000:
            yield (
                "retries are stored once for a shorter time than topics ask: messages go after"
                f" fileReservedTime, {kept_hours} hours"
            )
        if self._saving.error is not None:
            yield f"unique keys are not saved, a start will read them: {self._saving.error}"

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
