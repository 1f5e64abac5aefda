"""Batches on their way into one record: what RocketMQ calls an inner batch."""

from typing import Final

from aerobee.broker.rules.attributes import is_batched
from aerobee.broker.rules.delay_property import TIMER_PROPERTIES, delay_level
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere, InnerBatch
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property, join_properties
from aerobee.storage.errors import AppendRefused
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY
from aerobee.storage.recovery.batch_units.units import UNIT_MESSAGES_MAX

FLAGS: Final = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH


class InnerBatches:
    """Makes one record of a batch that has a key of its own, for a topic that wants that.

    Clients older than 5.0 give a batch no key: its messages are stored one by one.
    """

    def __init__(self, writing: Writing) -> None:
        self._queues = writing.queues
        self._tags_code = writing.appender.tag_hashes.of
        self.stored = self.messages = 0

    def inner(
        self, topic: TopicConfig, queue_id: int, sent: dict[str, str], messages: int
    ) -> InnerBatch | None:
        """Return how a batch of so many messages is stored, None where it is not one record.

        `sent` are the properties of its header. Raises RequestError for what cannot be.
        """
        key = sent.get(Property.UNIQ_KEY)
        if not key or not is_batched(topic):
            return None
        if messages > UNIT_MESSAGES_MAX:
            raise _illegal(f"a batch of {messages} messages, at most {UNIT_MESSAGES_MAX} are kept")
        if sent.get(Property.TRAN_MSG, "").lower() == "true":
            raise _illegal("a batch cannot be a half message: send them one by one")
        if delay_level(sent) or any(name in sent for name in TIMER_PROPERTIES):
            raise _illegal("a batch cannot have a delay: send delayed messages one by one")
        if Property.INNER_MULTI_DISPATCH in sent:
            raise _illegal("a batch cannot go into light queues: send such messages one by one")
        queue = self._queues.get(topic.topic_name, queue_id)
        try:
            queue.stored.reserve()
        except AppendRefused as error:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
        properties = dict(sent)
        for name in (Property.POP_CK, DELIVERED_PROPERTY):
            properties.pop(name, None)
        properties[Property.INNER_NUM] = str(messages)
        properties[Property.INNER_BASE] = str(queue.stored.max_offset)
        tags_code = self._tags_code(join_properties(properties))
        place = Elsewhere(
            queue, tags_code, 0, lambda: self._share(queue, messages, tags_code),
            reply={"batch_uniq_id": key},
        )  # fmt: skip
        return InnerBatch(place, properties, FLAGS, key)

    def _share(self, queue: TopicQueue, messages: int, tags_code: int) -> None:
        """Give the other messages the entry that the first one has got."""
        stored = queue.stored
        position, size = stored.place_of(stored.max_offset - 1)
        stored.add_alike(messages - 1, position, size, tags_code)
        self.stored += 1
        self.messages += messages


def _illegal(problem: str) -> RequestError:
    return RequestError(ResponseCode.MESSAGE_ILLEGAL, problem)
