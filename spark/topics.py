"""Which topics and queues a read takes: named ones, a pattern, or all that users' messages are in.

What RocketMQ keeps for itself (waiting transactions, delayed messages, its own events) and the
messages that groups are to try again are left out unless they are asked for or named. Source:
TopicValidator.java, MixAll.java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aerobee.remoting.words import RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from aerobee.spark.offsets import BrokerQueue

# how the names of all topics begin that may be left out: four bytes tell nearly all others apart
SUSPECTS: Final = frozenset(
    name.encode()[:4] for name in (*SYSTEM_TOPICS, SYSTEM_PREFIX, RETRY_PREFIX)
)


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics of a read; of `names`, `pattern` and `queues` at most one is not None.

    `pattern` must match a topic's whole name. `queues` limits the queues too.
    """

    names: frozenset[str] | None = None
    pattern: str | None = None
    queues: frozenset[BrokerQueue] | None = None
    system: bool = True
    retry: bool = True

    @property
    def everything(self) -> bool:
        """Whether every topic is taken."""
        return self.system and self.retry and self.pattern is None and not self.named

    @property
    def named(self) -> bool:
        """Whether the topics are known by name beforehand."""
        return self.names is not None or self.queues is not None

    @property
    def limited(self) -> bool:
        """Whether more is asked for than to leave out topics that are not the users'."""
        return self.named or self.pattern is not None

    def wants(self, topic: str) -> bool:
        """Whether any messages of the topic are taken."""
        if self.names is not None:
            return topic in self.names
        if self.queues is not None:
            return any(key.topic == topic for key in self.queues)
        if self.pattern is not None and re.fullmatch(self.pattern, topic) is None:
            return False
        if not self.retry and topic.startswith(RETRY_PREFIX):
            return False
        return self.system or not is_system_topic(topic)

    def wants_queue(self, key: BrokerQueue) -> bool:
        """Whether a queue's messages are taken."""
        if self.queues is not None:
            return key in self.queues
        return self.wants(key.topic)


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ keeps the topic for itself (TopicValidator.isSystemTopic)."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


ALL_TOPICS = TopicChoice()
