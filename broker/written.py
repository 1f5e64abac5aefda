"""What appending needs, as one: the store, its queues, the turn of the loop, and who appends."""

from dataclasses import dataclass

from aerobee.broker.appending import Appender
from aerobee.broker.tick import Tick
from aerobee.broker.topic_queues import TopicQueues
from aerobee.storage.store import MessageStore


@dataclass(frozen=True, slots=True)
class Writing:
    """Made once by the broker; only the loop's thread touches what is in it."""

    store: MessageStore
    queues: TopicQueues
    tick: Tick
    appender: Appender
