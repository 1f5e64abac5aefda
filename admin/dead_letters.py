"""Dead letters: which groups have some, why, and sending them again without end or doubles."""

from typing import Final

import msgspec

from aerobee.admin.calls import side_by_side
from aerobee.admin.copies import Rule, sent_again
from aerobee.admin.topics import TopicAdmin
from aerobee.client import Message
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.properties import Property
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

RESENDS: Final = "AEROBEE_RESENDS"
"""The property that counts how often a dead letter was sent again."""
RESENDS_MAX: Final = 3


class DeadLetters(msgspec.Struct, frozen=True):
    """How many dead letters a group has, and when the newest came (ms since 1970)."""

    group: str
    messages: int
    newest_ms: int


class DeadLetterAdmin:
    """Lists the groups that have dead letters; `resend_rule` is what sends them again."""

    def __init__(self, topics: TopicAdmin) -> None:
        self._topics = topics

    async def groups(self) -> tuple[list[DeadLetters], dict[str, AerobeeError]]:
        """Return every group with dead letters, and the brokers that did not answer."""
        answers = await self._topics.configs()
        names = {
            topic
            for configs in answers.found.values()
            for topic in configs
            if topic.startswith(DLQ_PREFIX)
        }
        found = await side_by_side(sorted(names), self._count)
        return [each for each in found.values() if each.messages], dict(answers.failed)

    async def _count(self, topic: str) -> DeadLetters:
        described = await self._topics.describe(topic)
        newest = max((queue.newest_ms for queue in described.queues), default=0)
        return DeadLetters(topic.removeprefix(DLQ_PREFIX), described.messages, newest)


def origin_topic(message: ReceivedMessage) -> str | None:
    """Return the topic that a dead letter was first sent to; None if it does not say."""
    properties = message.properties
    return properties.get(Property.DLQ_ORIGIN_TOPIC) or properties.get(Property.RETRY_TOPIC)


def resends_of(message: ReceivedMessage) -> int:
    """Return how often a message was sent again out of the dead letters."""
    text = message.properties.get(RESENDS, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def reason_of(message: ReceivedMessage) -> str:
    """Say in words why a message is a dead letter; brokers keep no error of a consumer's."""
    again = resends_of(message)
    text = f"failed after {message.reconsume_times} retries"
    if again:
        text += f", sent again {again} times"
    origin = message.properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
    return f"{text}, first sent as {origin}" if origin else text


def resend_rule(group: str, *, to_topic: bool = False, resends_max: int = RESENDS_MAX) -> Rule:
    """Return the rule that sends dead letters of a group to it again, and to nobody else.

    With `to_topic` they go to the topic that they were first sent to: all its groups get them. One
    that was sent again `resends_max` times already, or does not say where it was from, is left out.
    """

    def rule(message: ReceivedMessage) -> Message | None:
        again = resends_of(message)
        origin = origin_topic(message)
        if again >= resends_max or origin is None:
            return None
        counted = {RESENDS: str(again + 1)}
        if to_topic:
            return sent_again(message, origin, **counted)
        counted[Property.RETRY_TOPIC] = origin
        return sent_again(message, RETRY_PREFIX + group, **counted)

    return rule
