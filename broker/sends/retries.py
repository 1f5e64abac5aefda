"""What becomes of a message that a group failed to consume: another try later, or the dead letters.

A failed message waits in SCHEDULE_TOPIC_XXXX and then goes to %RETRY%group, with its first topic in
RETRY_TOPIC and its first id in ORIGIN_MESSAGE_ID; after retryMaxTimes tries it goes to %DLQ%group.
Two ways lead here: a client names the message (36), or, where that failed, sends it as a new one
to the retry topic (AbstractSendMessageProcessor, SendMessageProcessor.handleRetryAndDLQ).
"""

import logging
import random
from collections.abc import Callable
from typing import Final

import msgspec

from aerobee.broker.rules.names import retry_topic
from aerobee.broker.rules.remarks import further_details
from aerobee.broker.sends.retry_policy import retry_level
from aerobee.broker.tables.groups import GroupTable
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import SubscriptionGroupConfig, TopicConfig
from aerobee.remoting.codes import Perm, ResponseCode, TopicSysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import AnySend, SendBackRequest
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import Property, join_properties, parse_properties
from aerobee.remoting.message.record import Record
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

log = logging.getLogger(__name__)

V3_4_9: Final = 121  # from this client version on its maxReconsumeTimes counts
DLQ_QUEUES: Final = 1
INT32_MAX: Final = 2**31 - 1
AT_ONCE: Final = "-1"  # the DELAY of what a client sent to the retry topic once too often


class Destination(msgspec.Struct, frozen=True):
    """Where a failed message goes and with which properties; `reconsume_times` counts this one."""

    topic: TopicConfig
    queue_id: int
    is_new: bool  # nobody knows the topic yet
    properties: dict[str, str]
    reconsume_times: int


def tries_max(config: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return how often a message is tried again: the group's number, or the client's own."""
    if asked is not None and version >= V3_4_9:
        return asked
    return config.retry_max_times


class Retries:
    """Says where failed messages go, and makes the topics for that.

    `is_ordered` says whether a group consumes in order, `count_dead_letter` counts by topic and
    group, `levels_ms` are the delays of the levels.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        levels_ms: tuple[int, ...],
        is_ordered: Callable[[str], bool],
        count_dead_letter: Callable[[str, str], None],
    ) -> None:
        self.topics = topics
        self._groups = groups
        self._levels_ms = levels_ms
        self._is_ordered = is_ordered
        self._count_dead_letter = count_dead_letter

    def group_config(self, group: str) -> SubscriptionGroupConfig:
        """Return a group's configuration, made if that is allowed; RequestError (26) if not."""
        config = self._groups.find(group)
        if config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                further_details(f"subscription group not exist, {group} "),
            )
        return config

    def destination(
        self,
        header: SendBackRequest,
        config: SubscriptionGroupConfig,
        record: Record,
        version: int,
    ) -> Destination:
        """Decide where a failed message goes; makes the topic where it has to."""
        group, times = header.group, record.reconsume_times
        topic, is_new = self._retry_topic(config, unit_mode=header.unit_mode)
        queue_id = random.randrange(config.retry_queue_nums)
        properties = parse_properties(record.properties)
        properties.setdefault(Property.RETRY_TOPIC, record.topic)
        origin_id = offset_message_id(*record.store_host, record.position)
        properties.setdefault(Property.ORIGIN_MESSAGE_ID, origin_id)
        properties[Property.WAIT] = "false"
        level = header.delay_level
        if level < 0 or times >= tries_max(config, header.max_reconsume_times, version):
            topic, is_new = self._dead_letter_topic(group)
            queue_id = 0
            properties[Property.DELAY] = "0"
            properties[Property.DLQ_ORIGIN_TOPIC] = properties[Property.RETRY_TOPIC]
            properties[Property.DLQ_ORIGIN_MESSAGE_ID] = properties[Property.ORIGIN_MESSAGE_ID]
            origin = header.origin_topic or ""
            self._buried(group, origin if self.topics.get(origin) else record.topic, properties)
        else:
            levels_ms = self._levels_ms
            level = level or retry_level(config, times, levels_ms)
            properties[Property.DELAY] = str(min(level, len(levels_ms)))
        return Destination(topic, queue_id, is_new, properties, min(times + 1, INT32_MAX))

    def instead_of_retry(
        self, header: AnySend, version: int
    ) -> tuple[AnySend, TopicConfig, bool] | None:
        """Return where a message to a retry topic goes that was tried often enough, None otherwise.

        That is the header of a send to the dead letters, their topic, and whether it is new. A
        group that consumes in order sends only what it has given up. Raises RequestError (26) for a
        group that is not allowed.
        """
        group = header.topic.removeprefix(RETRY_PREFIX)
        config = self.group_config(group)
        times = header.reconsume_times or 0
        allowed = tries_max(config, header.max_reconsume_times, version)
        if times <= allowed and not self._is_ordered(group):
            return None
        topic, is_new = self._dead_letter_topic(group)
        properties = parse_properties(header.properties or "") | {Property.DELAY: AT_ONCE}
        for name, origin in (
            (Property.DLQ_ORIGIN_TOPIC, Property.RETRY_TOPIC),
            (Property.DLQ_ORIGIN_MESSAGE_ID, Property.ORIGIN_MESSAGE_ID),
        ):
            if origin in properties:
                properties[name] = properties[origin]
        self._buried(group, header.topic, properties)
        changed = msgspec.structs.replace(
            header, topic=topic.topic_name, queue_id=0, properties=join_properties(properties)
        )
        return changed, topic, is_new

    def _retry_topic(
        self, config: SubscriptionGroupConfig, *, unit_mode: bool
    ) -> tuple[TopicConfig, bool]:
        """Return a group's retry topic, and whether it was made just now.

        Raises RequestError (16) where it may not be written.
        """
        name = retry_topic(config.group_name)
        is_new = self.topics.get(name) is None
        topic, _ = self.topics.create_for_group(
            name, config.retry_queue_nums, topic_sys_flag=TopicSysFlag.UNIT_SUB if unit_mode else 0
        )
        if not topic.perm & Perm.WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return topic, is_new

    def _dead_letter_topic(self, group: str) -> tuple[TopicConfig, bool]:
        """Return a group's topic of dead letters, and whether it was made just now."""
        name = DLQ_PREFIX + group
        is_new = self.topics.get(name) is None
        topic, _ = self.topics.create_for_group(name, DLQ_QUEUES)
        return topic, is_new

    def _buried(self, group: str, topic: str, properties: dict[str, str]) -> None:
        """Count and log a message that goes to the dead letters."""
        self._count_dead_letter(topic, group)
        log.info("dead_letter group=%s topic=%s key=%s", group, topic,
                 properties.get(Property.UNIQ_KEY, ""))  # fmt: skip
