"""Which logical queue of a static topic a request is about, and where it lies."""

from typing import Any, Final

import msgspec

from aerobee.broker.features.static_topics.mappings import MappingTable, led_by
from aerobee.remoting.bodies import LogicQueueMappingItem, TopicQueueMappingDetail
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError

LOGICAL: Final = "lo"
"""The field of a request that is false where its queue is a physical one."""


class LogicalQueue(msgspec.Struct, frozen=True):
    """A logical queue that this broker leads; `items` are its stretches, the last one leads."""

    detail: TopicQueueMappingDetail
    queue_id: int
    items: list[LogicQueueMappingItem]

    @property
    def leader(self) -> LogicQueueMappingItem:
        """Where messages are stored."""
        return self.items[-1]


class MappedTopics:
    """Answers by the mappings of the moment."""

    def __init__(self, table: MappingTable, broker_name: str) -> None:
        self._details = table.details
        self._led = table.led
        self.broker_name = broker_name

    def of(self, topic: str, command: Command) -> TopicQueueMappingDetail | None:
        """Return the mapping that a request is to be read by; None where its queue is physical."""
        detail = self._details.get(topic)
        if detail is None or command.ext.get(LOGICAL) == "false":
            return None
        return detail

    def find(self, topic: str) -> TopicQueueMappingDetail | None:
        """Return the mapping of a topic, None where it has none."""
        return self._details.get(topic)

    def is_current(self, detail: TopicQueueMappingDetail) -> bool:
        """Whether a mapping is still in force."""
        return self._details.get(detail.topic) is detail

    def led(
        self, detail: TopicQueueMappingDetail, queue_id: int, what: str = "does not exit"
    ) -> LogicalQueue:
        """Return a logical queue; RequestError (501) where another broker leads it."""
        items = detail.hosted_queues.get(queue_id)
        if not items or items[-1].bname != self.broker_name:
            raise RequestError(
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                f"{detail.topic}-{queue_id} {what} in request process of current broker"
                f" {self.broker_name}",  # RocketMQ's words, with its spelling
            )
        return LogicalQueue(detail, queue_id, items)

    def any_led(self, detail: TopicQueueMappingDetail) -> int:
        """Return a logical queue for who does not care which, -1 where none is led here."""
        return next(iter(self._led.get(detail.topic, {}).values()), -1)

    def stored_in(self, detail: TopicQueueMappingDetail, physical_id: int) -> LogicalQueue | None:
        """Return the logical queue whose messages go into a physical one of this broker."""
        if self.is_current(detail):
            led = self._led.get(detail.topic, {})
        else:
            led = led_by(detail, self.broker_name)
        queue_id = led.get(physical_id)
        return None if queue_id is None else self.led(detail, queue_id)

    def check_append(self, topic: str, physical_id: int) -> None:
        """Refuse (501) a message for a physical queue that leads no more, in the turn it goes in.

        Who has given a queue away says where it ended; nothing may come behind that.
        """
        detail = self._details.get(topic)
        if detail is not None and self.stored_in(detail, physical_id) is None:
            raise RequestError(
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                f"{topic}: physical queue {physical_id} of {self.broker_name} leads no more",
            )


def replaced(header: Any, **fields: Any) -> Any:
    """Return a header with other values."""
    return msgspec.structs.replace(header, **fields)
