"""What the labels say of a topic, a group, a message, as RocketMQ's do."""

from collections.abc import Callable
from typing import Final

from aerobee.broker.rules.attributes import MESSAGE_TYPE
from aerobee.broker.rules.system_topics import system_topic_names
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.words import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_PREFIX,
    TIMER_TOPIC,
)

WAITING: Final = {HALF_TOPIC: "transaction", SCHEDULE_TOPIC: "delay", TIMER_TOPIC: "delay"}
"""Topics whose messages go to others later, and what these are."""
TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}
"""What a topic says that its messages are, with the label that RocketMQ gives such a message."""
_VERSION_MAX: Final = 611  # V5_9_9, the last that RocketMQ has a name for
_V4_0_0: Final = 213
_V3_3_1: Final = 87
_V3_1_0: Final = 47
_V3_0_1: Final = 17
_OLDEST: Final = (
    "v3_0_0_snapshot", "v3_0_0_alpha1", "v3_0_0_beta1", "v3_0_0_beta2", "v3_0_0_beta3",
    "v3_0_0_beta4", "v3_0_0_beta5", "v3_0_0_beta6_snapshot", "v3_0_0_beta6",
    "v3_0_0_beta7_snapshot", "v3_0_0_beta7", "v3_0_0_beta8_snapshot", "v3_0_0_beta8",
    "v3_0_0_beta9_snapshot", "v3_0_0_beta9", "v3_0_0_final",
)  # fmt: skip


def true_or_false(value: bool) -> str:
    """Write a label that is a truth."""
    return "true" if value else "false"


def is_retry(topic: str) -> bool:
    """Whether a topic has what a group tries again, or has given up."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_group(group: str) -> bool:
    """Whether a group is one of the broker's own."""
    return group.upper().startswith(SYSTEM_GROUP_PREFIX)


def system_topics(settings: BrokerSettings) -> Callable[[str], bool]:
    """Return what tells whether a topic is one of the broker's own."""
    names = system_topic_names(settings)
    return lambda topic: topic in names or topic.startswith(SYSTEM_PREFIX)


def message_type(topics: TopicTable, name: str) -> str:
    """Return what a topic's messages are, as far as the topic says it: `message.type`."""
    if (waiting := WAITING.get(name)) is not None:
        return waiting
    topic = topics.get(name)
    said = (topic.attributes or {}).get(MESSAGE_TYPE, "") if topic is not None else ""
    return TYPES.get(said, "normal")


def version_name(number: int) -> str:
    """Return the name of a client's version in lower case (MQVersion): `v5_5_0`.

    Its numbers count releases and their snapshots, of which each x.y has ten since 4.0, and nine or
    ten before.
    """
    if number > _VERSION_MAX:
        return "higher_version"
    snapshot = "_snapshot" if number % 2 == 0 else ""
    release = number + (1 if snapshot else 0)
    if number <= len(_OLDEST) - 1:
        return _OLDEST[max(0, number)]
    if release >= _V4_0_0:
        nth = 400 + (release - _V4_0_0) // 2
        major, minor, patch = nth // 100, nth // 10 % 10, nth % 10
    elif release >= _V3_3_1:
        nth = (release - _V3_3_1) // 2
        major, minor, patch = 3, 3 + nth // 9, 1 + nth % 9
    elif release >= _V3_1_0:
        nth = (release - _V3_1_0) // 2
        major, minor, patch = 3, 1 + nth // 10, nth % 10
    else:
        major, minor, patch = 3, 0, 1 + (release - _V3_0_1) // 2
    return f"v{major}_{minor}_{patch}{snapshot}"
