"""Which queue a message goes to: its user's choice, or whose turn it is."""

from typing import Final

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import InvalidUse, wrong_argument
from aerobee.client.message import Message, MessageQueue, check_queue
from aerobee.client.sending.latency import LatencyTolerance, TolerantTurns
from aerobee.client.sending.selectors import QueueSelector, RoundRobin, by_key
from aerobee.client.settings import LatencySettings

TOPICS_KEPT: Final = 10_000  # whose turns are remembered


class QueueChoice:
    """Whose turn it is in each topic that one producer sends to, and which brokers it avoids.

    `tolerance` is None where no broker is avoided for how it served.
    """

    def __init__(self, settings: LatencySettings) -> None:
        self.turns: dict[str, RoundRobin] = {}  # by topic
        self.tolerance = LatencyTolerance(settings) if settings.enabled else None

    def learn(self, topic: str) -> None:
        """Remember whose turn it is in a topic, from now on."""
        if topic not in self.turns and len(self.turns) >= TOPICS_KEPT:
            self.turns.clear()  # they begin anew; nobody else knows of them
        if topic not in self.turns:
            tolerance = self.tolerance
            self.turns[topic] = RoundRobin() if tolerance is None else TolerantTurns(tolerance)

    def failed(self, queue: MessageQueue, error: Exception) -> None:
        """Note that a send to this queue has failed."""
        if self.tolerance is not None:
            self.tolerance.failed(queue.broker_name, error)

    def choose(
        self,
        route: TopicRoute,
        message: Message,
        queue: MessageQueue | None,
        key: str | int | None,
        selector: QueueSelector | None,
    ) -> MessageQueue:
        """Return the queue that the user has chosen, by one of three ways, else whose turn it is.

        Raises InvalidUse for two of them, and for what is no queue of the topic.
        """
        check_choice(queue, key, selector)
        if queue is not None:
            if queue.topic != message.topic:
                raise InvalidUse(f"queue {queue} does not belong to topic {message.topic!r}")
            return queue
        if key is not None:
            selector = by_key(key)
        if selector is None:
            return self.turns[route.topic].pick(route.write_queues)
        chosen = selector(route.write_queues, message)
        if chosen not in route.write_queues:
            raise InvalidUse(f"the selector returned {chosen}, which is no queue of the topic")
        return chosen


def check_choice(queue: object, key: object, selector: object) -> None:
    """Raise InvalidUse where a queue is chosen in two ways, or by what chooses none."""
    if (queue is not None) + (key is not None) + (selector is not None) > 1:
        raise InvalidUse("give one of queue, key and selector")
    if queue is not None:
        check_queue(queue)
    if key is not None and (not isinstance(key, str | int) or isinstance(key, bool)):
        raise wrong_argument("key", "a text or an int", key)
    if selector is not None and not callable(selector):
        wanted = "a function of the queues and the message"
        raise wrong_argument("selector", wanted, selector)
