"""What is stored of a message that is due: in its own topic, or once more among those that wait."""

from collections.abc import Callable
from typing import Final

from aerobee.broker.features.timers.times import due_ms
from aerobee.broker.features.timers.waiting import WaitingRecord, delivered_properties
from aerobee.broker.rules.names import topic_problem
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.message.properties import Property, find_property, parse_properties
from aerobee.remoting.words import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from aerobee.storage.errors import MessageTooLarge

QUEUE_ID_MAX: Final = 32_767
_DELETES: Final = Property.TIMER_DEL_UNIQKEY.encode()


class Undeliverable(Exception):
    """A message that can be stored nowhere, ever."""


class DueMessages:
    """Appends what is due; the caller commits.

    Errors: Undeliverable, and those of CommitLog.append.
    """

    def __init__(self, writing: Writing, now_ms: Callable[[], int]) -> None:
        self._queues = writing.queues
        self._appender = writing.appender
        self._now_ms = now_ms

    def deliver(self, record: WaitingRecord) -> str:
        """Store a message in its own topic, whose name is returned.

        One that takes another one back is not delivered.
        """
        properties = record.properties
        if _DELETES in properties and count_of(record) < 0:
            raise Undeliverable("it takes another one back")
        topic = find_property(properties, Property.REAL_TOPIC) or ""
        text = find_property(properties, Property.REAL_QID) or ""
        if not (text.isascii() and text.isdecimal() and int(text[:6]) <= QUEUE_ID_MAX):
            raise Undeliverable(f"its own queue is {text!r}")
        queue = self._queues.find(topic, int(text[:6])) or self._new_queue(topic, int(text[:6]))
        self._append(queue, record, delivered_properties(record, self._now_ms()))
        return topic

    def roll(self, record: WaitingRecord) -> tuple[int, dict[str, str]]:
        """Put a message aside once more; return when it is due, and its properties."""
        try:
            _, due = due_ms(parse_properties(record.properties), record.store_timestamp)
        except ValueError as error:
            raise Undeliverable(str(error)) from error
        properties = delivered_properties(record, self._now_ms(), due)
        self._append(self._queues.get(TIMER_TOPIC, 0), record, properties)
        return due, parse_properties(properties)

    def _new_queue(self, topic: str, queue_id: int) -> TopicQueue:
        if problem := topic_problem(topic):
            raise Undeliverable(problem)
        if topic in (SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC):
            raise Undeliverable(f"its own topic is {topic}")
        return self._queues.get(topic, queue_id)

    def _append(self, queue: TopicQueue, record: WaitingRecord, properties: bytes) -> None:
        stamp = Stamp(record.born_host, record.store_host).at(
            self._now_ms(), record.reconsume_times
        )
        tags = find_property(record.properties, Property.TAGS)
        tags_code = self._appender.tag_hashes[tags] if tags else 0
        message = record.flag, record.body, properties, tags_code
        try:
            self._appender.append_again(
                queue, record.sys_flag, record.born_timestamp, stamp, message
            )
        except MessageTooLarge as error:
            raise Undeliverable(str(error)) from error


def topic_of(record: WaitingRecord) -> str:
    """Return the topic that a message waits for."""
    return find_property(record.properties, Property.REAL_TOPIC) or ""


def key_of(record: WaitingRecord) -> str | None:
    """Return the unique key of a message."""
    return find_property(record.properties, Property.UNIQ_KEY)


def count_of(record: WaitingRecord) -> int:
    """Return how a message counts among those that wait: -1 for one that takes another back."""
    return -1 if find_property(record.properties, Property.TIMER_DEL_UNIQKEY) is not None else 1
