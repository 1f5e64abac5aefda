"""Messages on their way into light queues: what they say is checked, and gets its offsets."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

from aerobee.broker.rules.names import topic_problem
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere, LightEntries
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import (
    PROPERTIES_BYTES_MAX,
    Property,
    join_properties,
    parse_properties,
)
from aerobee.remoting.words import (
    DLQ_PREFIX,
    LIGHT_QUEUE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
)
from aerobee.storage.errors import AppendRefused
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

log = logging.getLogger(__name__)

SEPARATOR: Final = ","
RECOUNT_S: Final = 1.0
_OFFSET_BYTES_MAX: Final = 20
_OFFSETS_BYTES: Final = len(Property.INNER_MULTI_QUEUE_OFFSET) + 2


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
        self.dispatched = self.left_out = 0  # entries

    def check(self, properties: dict[str, str], topic: str) -> int:
        """Check what is sent, and return how much room it needs; see LightPlacer."""
        properties.pop(Property.INNER_MULTI_QUEUE_OFFSET, None)  # the broker alone says it
        if _gets_none(topic) or not (names := self._names(properties)):
            return 0
        if not self._takes(self._missing(names)):
            raise RequestError(
                ResponseCode.LMQ_QUOTA_EXCEEDED,
                "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.",
            )
        properties[Property.INNER_MULTI_DISPATCH] = SEPARATOR.join(names)
        return _OFFSETS_BYTES + _OFFSET_BYTES_MAX * len(names)

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return the message's own queue with what is to be done behind it; see Placer.

        It has been checked, in this turn.
        """
        if not (text := properties.get(Property.INNER_MULTI_DISPATCH)) or _gets_none(topic):
            return None
        names = text.split(SEPARATOR)
        self.count += self._missing(names)
        light = [self._queues.get(name, LIGHT_QUEUE_ID) for name in names]
        try:
            for queue in light:
                queue.stored.reserve()
        except AppendRefused as error:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
        offsets = [str(queue.stored.max_offset) for queue in light]
        properties[Property.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
        properties.pop(Property.WAIT, None)
        own = self._queues.get(topic, queue_id)
        tags_code = self._tags_code(join_properties(properties))
        return Elsewhere(own, tags_code, 0, lambda: self._dispatch(own, light, tags_code))

    def entries(self, queue: TopicQueue, properties: bytes, tags_code: int) -> LightEntries | None:
        """Return the entries of a message that waited until now; see LightPlacer.

        What could be filled when it was sent, and cannot now, has no offset in the record.
        """
        if _gets_none(queue.name):
            return None
        pairs = parse_properties(properties)
        if not (text := pairs.get(Property.INNER_MULTI_DISPATCH)):
            return None
        light: dict[str, TopicQueue] = {}
        offsets, left_out = list[str](), list[str]()
        for name in text.split(SEPARATOR):
            known = name in light
            if known or self._problem(name) is not None or not self.has_room(name):
                offsets.append("")
                left_out += () if known else (name,)
                continue
            light[name] = entry = self._queues.get(name, LIGHT_QUEUE_ID)
            entry.stored.reserve()
            offsets.append(str(entry.stored.max_offset))
        pairs[Property.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
        pairs.pop(Property.WAIT, None)
        stored = join_properties(pairs).encode("utf-8", "replace")
        if not light or len(stored) > PROPERTIES_BYTES_MAX:  # of another broker's message
            left_out += light
            light.clear()
            pairs.pop(Property.INNER_MULTI_QUEUE_OFFSET)
            stored = join_properties(pairs).encode("utf-8", "replace")
        queues = list(light.values())

        def appended() -> None:
            self._dispatch(queue, queues, tags_code)
            self.left_out += len(left_out)
            if left_out:
                log.warning("light_entries_left_out topic=%s names=%s", queue.name,
                            SEPARATOR.join(left_out))  # fmt: skip

        return LightEntries(stored, appended)

    def _names(self, properties: Mapping[str, str]) -> list[str]:
        """Return the light queues that a message names; RequestError where that cannot be."""
        if not (text := properties.get(Property.INNER_MULTI_DISPATCH)):
            return []
        names = list(dict.fromkeys(text.split(SEPARATOR)))
        for name in names:
            if (problem := self._problem(name)) is not None:
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL, f"{Property.INNER_MULTI_DISPATCH}: {problem}"
                )
        return names

    def _problem(self, name: str) -> str | None:
        """Return why a name cannot be that of a light queue, None where it can."""
        if (problem := topic_problem(name)) is not None:
            return problem
        if not name.startswith(LIGHT_QUEUE_PREFIX):
            return f"{name} is no light queue, whose names begin with {LIGHT_QUEUE_PREFIX}"
        return f"{name} is a topic, and no light queue" if self._is_listed(name) else None

    def has_room(self, name: str) -> bool:
        """Whether a light queue is there, or may be, and is counted then: to wait makes it, too."""
        if self._store.find_queue(name, LIGHT_QUEUE_ID) is not None:
            return True
        if topic_problem(name) is not None or not self._takes(1):
            return False
        self.count += 1
        return True

    def _missing(self, names: list[str]) -> int:
        return sum(self._store.find_queue(name, LIGHT_QUEUE_ID) is None for name in names)

    def _takes(self, new: int) -> bool:
        """Whether there may be so many more; where there are too many, those there are count."""
        if not new:
            return True
        queues_max = self._queues_max()
        if self.count + new > queues_max and monotonic() >= self._counted_s + RECOUNT_S:
            self._counted_s, self.count = monotonic(), self._present()
        return self.count + new <= queues_max

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


def _gets_none(topic: str) -> bool:
    """Whether messages of a topic are for no light queue, whatever they say: they come again."""
    return topic == SCHEDULE_TOPIC or topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_PREFIX))
