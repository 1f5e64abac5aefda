"""Which queue of a topic the next message goes to."""

import random
from collections.abc import Callable, Sequence

from aerobee.client.message import Message, MessageQueue
from aerobee.remoting.message.tags import java_string_hash

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Picks one of a topic's queues for a message (MessageQueueSelector.java)."""


class RoundRobin:
    """Takes the queues of a topic in turn, from a random start (ThreadLocalIndex.java)."""

    __slots__ = ("turn",)

    def __init__(self, start: int | None = None) -> None:
        self.turn = random.randrange(1 << 30) if start is None else start

    def pick(self, queues: Sequence[MessageQueue], avoid_broker: str | None = None) -> MessageQueue:
        """Return the next queue; of another broker than `avoid_broker` where there is one."""
        self.turn += 1
        first = queue = queues[self.turn % len(queues)]
        while queue.broker_name == avoid_broker:
            self.turn += 1
            queue = queues[self.turn % len(queues)]
            if queue is first:
                break
        return queue

    def pick_if(
        self, queues: Sequence[MessageQueue], wanted: Callable[[MessageQueue], bool]
    ) -> MessageQueue | None:
        """Return the next queue that is wanted; None where none of them is."""
        for _ in queues:
            self.turn += 1
            queue = queues[self.turn % len(queues)]
            if wanted(queue):
                return queue
        return None


def by_key(key: str | int) -> QueueSelector:
    """Send equal keys to the same queue, as long as the topic keeps its number of queues.

    A string counts by its Java hash, an int by its value, so that Java producers with
    SelectMessageQueueByHash and ours agree on the queue.
    """
    number = key if isinstance(key, int) else java_string_hash(key)

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        # Java's % keeps the sign, SelectMessageQueueByHash then takes the absolute value
        return queues[abs(number) % len(queues)]

    return select


def at_random(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Send each message to any queue (SelectMessageQueueByRandom.java)."""
    return random.choice(queues)
