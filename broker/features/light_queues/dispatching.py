"""Messages on their way into light queues: what they say is checked, and gets its offsets."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

from aerobee.broker.rules.delay_property import delay_level
from aerobee.broker.rules.names import topic_problem
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property, join_properties
from aerobee.remoting.words import (
    DLQ_PREFIX,
    LIGHT_QUEUE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
)
from aerobee.storage.errors import AppendRefused
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

SEPARATOR: Final = ","
RECOUNT_S: Final = 1.0


class Dispatching:
    """Puts entries of a message into the light queues that it names, all or none.

    The record lies in the log once, as its topic's; INNER_MULTI_QUEUE_OFFSET says which offset it
    has in each of them (MultiDispatch). `queues_max` is how many light queues there may be.
    """

    def __init__(
        self, writing: Writing, is_listed: Callable[[str], bool], queues_max: Callable[[], int]
    ) -> None:
        self._queues = writing.queues
        self._store = writing.store
        self._log = writing.store.commit_log
        self._tick = writing.tick
        self._tags_code = writing.appender.tag_hashes.of
        self._is_listed = is_listed
        self._queues_max = queues_max
        self.count = self._present()
        self._counted_s = monotonic()
        self.dispatched = 0  # entries

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return the message's own queue with what is to be done behind it; see Placer."""
        properties.pop(Property.INNER_MULTI_QUEUE_OFFSET, None)  # the broker alone says it
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_PREFIX)) or topic == SCHEDULE_TOPIC:
            return None
        if not (names := self.names(properties)):
            return None
        if delay_level(properties):
            raise _illegal("a message with a delay cannot go into light queues: send it without")
        self._require_room(names)
        light = [self._queues.get(name, LIGHT_QUEUE_ID) for name in names]
        try:
            for queue in light:
                queue.stored.reserve()
        except AppendRefused as error:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
        offsets = [str(queue.stored.max_offset) for queue in light]
        properties[Property.INNER_MULTI_DISPATCH] = SEPARATOR.join(names)
        properties[Property.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
        properties.pop(Property.WAIT, None)
        own = self._queues.get(topic, queue_id)
        tags_code = self._tags_code(join_properties(properties))
        return Elsewhere(own, tags_code, 0, lambda: self._dispatch(own, light, tags_code))

    def names(self, properties: Mapping[str, str]) -> list[str]:
        """Return the light queues that a message names; RequestError where that cannot be."""
        if not (text := properties.get(Property.INNER_MULTI_DISPATCH)):
            return []
        names = list(dict.fromkeys(text.split(SEPARATOR)))
        for name in names:
            problem = topic_problem(name)
            if problem is None and not name.startswith(LIGHT_QUEUE_PREFIX):
                problem = f"{name} is no light queue, whose names begin with {LIGHT_QUEUE_PREFIX}"
            if problem is None and self._is_listed(name):
                problem = f"{name} is a topic, and no light queue"
            if problem is not None:
                raise _illegal(f"{Property.INNER_MULTI_DISPATCH}: {problem}")
        return names

    def _require_room(self, names: list[str]) -> None:
        new = sum(self._store.find_queue(name, LIGHT_QUEUE_ID) is None for name in names)
        if not self._takes(new):
            raise RequestError(
                ResponseCode.LMQ_QUOTA_EXCEEDED,
                "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.",
            )

    def has_room(self, name: str) -> bool:
        """Whether a light queue is there, or may be: to wait on one makes it, too."""
        if self._store.find_queue(name, LIGHT_QUEUE_ID) is not None:
            return True
        return topic_problem(name) is None and self._takes(1)

    def _takes(self, new: int) -> bool:
        """Count queues that are made now; where there are too many, those that there really are."""
        queues_max = self._queues_max()
        if new and self.count + new > queues_max and monotonic() >= self._counted_s + RECOUNT_S:
            self._counted_s, self.count = monotonic(), self._present()
        if new and self.count + new > queues_max:
            return False
        self.count += new
        return True

    def _present(self) -> int:
        return sum(queue.topic.startswith(LIGHT_QUEUE_PREFIX) for queue in self._store.queues)

    def _dispatch(self, own: TopicQueue, light: list[TopicQueue], tags_code: int) -> None:
        position, size = own.stored.place_of(own.stored.max_offset - 1)
        for queue in light:
            queue.stored.add(position, size, tags_code)
            queue.arrived_bytes += size
            if queue.holds:
                self._tick.woken.append(queue)
        self.dispatched += len(light)


def _illegal(problem: str) -> RequestError:
    return RequestError(ResponseCode.MESSAGE_ILLEGAL, problem)
