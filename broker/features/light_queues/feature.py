"""Light queues as a feature: who fills them, serves them, and keeps their groups' offsets."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.light_queues.dispatching import Dispatching
from aerobee.broker.features.light_queues.offsets_file import LightOffsetsFile
from aerobee.broker.room import Sample, Work

log = logging.getLogger(__name__)


class LightQueues(Feature):
    """Switched on by `enableLmq` and `enableMultiDispatch` together, at a start; see README.md."""

    def __init__(self, parts: Parts) -> None:
        self._live = parts.live
        self._store = parts.writing.store
        topics = parts.tables.topics
        self._dispatching = Dispatching(
            parts.writing,
            topics.is_listed,
            lambda: self._live.current.max_lmq_consume_queue_num,
        )
        self.placer = parts.writing.appender.light = self._dispatching
        topics.serves_light = self._dispatching.has_room
        self._offsets = LightOffsetsFile(parts.tables.offsets, parts.live.current.config_dir)
        self.files = (self._offsets.file,)
        if taken := self._offsets.take_over(self._end_of):
            log.info("light_offsets_taken count=%d path=%s", taken, self._offsets.file.path)

    def close(self) -> OSError | None:
        """Write what groups have committed, for RocketMQ."""
        try:
            self._offsets.save_now()
        except OSError as error:
            return error
        return None

    def background(self) -> Iterable[Work]:
        """Save the offsets now and then."""
        return (Work("light offsets", self._save),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of light queues."""
        return {
            "aerobee_light_queues": "Light queues (LMQ) that there are",
            "aerobee_light_entries_total": "Entries that messages got in light queues",
            "aerobee_light_entries_left_out_total": "Entries that messages that had waited did not"
            " get, as their light queue cannot be by now",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many queues there are, and how much went into them."""
        yield Sample("aerobee_light_queues", self._dispatching.count)
        yield Sample("aerobee_light_entries_total", self._dispatching.dispatched)
        yield Sample("aerobee_light_entries_left_out_total", self._dispatching.left_out)

    def shown(self) -> Mapping[str, Any]:
        """Return what `/api/broker` says of light queues."""
        dispatching = self._dispatching
        return {
            "lightQueues": {
                "queues": dispatching.count,
                "queuesMax": self._live.current.max_lmq_consume_queue_num,
                "entries": dispatching.dispatched,
                "leftOut": dispatching.left_out,
            }
        }

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.find_queue(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    async def _save(self) -> None:
        """Write the file every `flushConsumerOffsetInterval`, after consumerOffset.json."""
        while True:
            await asyncio.sleep(self._live.current.flush_consumer_offset_interval / 1000)
            with suppress(OSError):  # see TableFile.error
                await self._offsets.save()


make = LightQueues
