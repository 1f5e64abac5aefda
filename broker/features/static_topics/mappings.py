"""The static topics of this broker, kept in `config/topicQueueMapping.json` as RocketMQ does."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.features.static_topics import stretches
from aerobee.broker.features.static_topics.stretches import refused
from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import (
    DataVersion,
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
    TopicQueueMappings,
)

log = logging.getLogger(__name__)

QUEUES_MAX: Final = 32_767  # of a topic, as of any other
STRETCHES_MAX: Final = 1_000  # of a logical queue


class MappingTable:
    """The mapping of each static topic (TopicQueueMappingManager); the file is read when made.

    A mapping is never changed in place: who holds one holds what was in force.
    """

    def __init__(self, folder: Path, broker_name: str, now_ms: Callable[[], int]) -> None:
        self._broker_name = broker_name
        self._now_ms = now_ms
        self.details: dict[str, TopicQueueMappingDetail] = {}
        self.led: dict[str, dict[int, int]] = {}  # of each topic, by physical queue the logical one
        self.data_version = DataVersion(timestamp=now_ms())
        self.file = TableFile(folder / "topicQueueMapping.json", self.encode)
        stored = self.file.load(lambda data: decode_table(TopicQueueMappings, data))
        if stored is not None:
            self.details.update(stored.topic_queue_mapping_info_map)
            self.data_version = stored.data_version
        for topic, detail in self.details.items():
            self.led[topic] = led_by(detail, broker_name)
            if detail.bname != broker_name:
                log.error(
                    "static_topic_of_another_broker topic=%s broker=%s: its queues are led by"
                    " nobody here, and sends to them are refused; give the broker its name back,"
                    " or map the topic anew (remappingStaticTopic)",
                    topic,
                    detail.bname,
                )

    def planned(
        self, detail: TopicQueueMappingDetail, *, force: bool, anew: bool = False
    ) -> TopicQueueMappingDetail:
        """Return what is to be kept where somebody brings a mapping; RequestError if it may not be.

        Logical queues that it leaves out stay as they are. With `force` it replaces what is kept,
        whatever that was. `anew` says that there is no such topic, and what is kept counts nothing.
        """
        if detail.bname != self._broker_name:
            raise refused(
                f"The broker name is not equal {self._broker_name} != {detail.bname}"
            )  # RocketMQ takes it
        self._check(detail.hosted_queues)
        old = self.details.get(detail.topic)
        if old is None or anew:
            return detail
        if not force:
            _check_replaces(old, detail)
        queues = old.hosted_queues | detail.hosted_queues
        return msgspec.structs.replace(detail, hosted_queues=queues)

    def put(self, detail: TopicQueueMappingDetail) -> None:
        """Keep a mapping that was planned."""
        log.info("static_topic_mapped topic=%s mapping=%s", detail.topic, detail)
        self.details[detail.topic] = detail
        self.led[detail.topic] = led_by(detail, self._broker_name)
        self._changed()

    def drop(self, topic: str) -> None:
        """Forget the mapping of a topic that was deleted."""
        if self.details.pop(topic, None) is not None:
            del self.led[topic]
            self._changed()

    def infos(self, topics: Iterable[str]) -> dict[str, TopicQueueMappingInfo]:
        """Return what nameservers are told of those topics that are static."""
        return {
            topic: _info(detail)
            for topic in topics
            if (detail := self.details.get(topic)) is not None
        }

    def encode(self) -> bytes:
        """Return the text of topicQueueMapping.json."""
        return msgspec.json.encode(
            TopicQueueMappings(
                topic_queue_mapping_info_map=self.details, data_version=self.data_version
            )
        )

    def _check(self, hosted: Mapping[int, list[LogicQueueMappingItem]]) -> None:
        for queue_id, items in hosted.items():
            if not 0 <= queue_id < QUEUES_MAX or len(items) > STRETCHES_MAX:
                raise refused(f"logical queue {queue_id} with {len(items)} items is beyond limits")
            if any(item.queue_id >= QUEUES_MAX for item in items):
                raise refused(f"logical queue {queue_id} has a physical one beyond {QUEUES_MAX}")
            stretches.check(items)

    def _changed(self) -> None:
        version = self.data_version
        self.data_version = msgspec.structs.replace(
            version, timestamp=self._now_ms(), counter=version.counter + 1
        )
        self.file.mark()


def led_by(detail: TopicQueueMappingDetail, broker_name: str) -> dict[int, int]:
    """Return the logical queues that a broker leads, by the physical ones they lie in."""
    led: dict[int, int] = {}
    for queue_id, items in detail.hosted_queues.items():
        if items and items[-1].bname == broker_name:
            led.setdefault(items[-1].queue_id, queue_id)
    return led


def _check_replaces(old: TopicQueueMappingDetail, new: TopicQueueMappingDetail) -> None:
    """Refuse what is older than what is kept, or does not go on from it."""
    if new.epoch < old.epoch:
        raise refused(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
    if new.scope != old.scope:
        raise refused(f"Can't accept data with unmatched scope {new.scope} != {old.scope}")
    same_epoch = new.epoch == old.epoch
    for queue_id, items in old.hosted_queues.items():
        brought = new.hosted_queues.get(queue_id)
        if brought is not None:
            stretches.check_follows(items, brought, same_epoch=same_epoch)
        elif same_epoch:
            raise refused("Cannot accept equal epoch with null data")


def _info(detail: TopicQueueMappingDetail) -> TopicQueueMappingInfo:
    led = {
        queue_id: items[-1].queue_id
        for queue_id, items in detail.hosted_queues.items()
        if items and items[-1].bname == detail.bname
    }
    return TopicQueueMappingInfo(
        topic=detail.topic,
        scope=detail.scope,
        total_queues=detail.total_queues,
        bname=detail.bname,
        epoch=detail.epoch,
        curr_id_map=led,
    )
