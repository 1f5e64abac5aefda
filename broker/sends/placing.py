"""Where messages are stored, and as what: in their own queue, or where a feature puts them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aerobee.broker.features.feature import Placer
from aerobee.broker.writing.appender import Message
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, join_properties
from aerobee.storage.delays.progress import DELIVERED_PROPERTY
from aerobee.storage.errors import MessageTooLarge


@dataclass(frozen=True, slots=True)
class Placed:
    """Complete messages and the queue in which they are stored."""

    queue: TopicQueue
    messages: list[Message]
    appended: Callable[[], None] | None = None  # who wants to know of it, before the commit


class Placing:
    """Completes messages and stores them, where the first of `placers` says that has an opinion."""

    def __init__(self, writing: Writing, placers: Sequence[Placer]) -> None:
        self._queues = writing.queues
        self._appender = writing.appender
        self._placers = placers

    def place(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        body: bytes | memoryview,
        properties: dict[str, str],
        now_ms: int,
    ) -> Placed:
        """Complete a message that is stored at `now_ms`; `properties` may change with its place.

        Raises MessageTooLarge for properties that are too long, those included that a message gets
        later by its place, and RequestError for properties that cannot be.
        """
        properties.pop(DELIVERED_PROPERTY, None)  # ours alone: recovery believes it
        elsewhere = None
        for placer in self._placers:
            if elsewhere := placer.elsewhere(properties, topic, queue_id, now_ms):
                break
        bytes_max = PROPERTIES_BYTES_MAX - (elsewhere.spare_bytes if elsewhere else 0)
        text = join_properties(properties)
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > bytes_max:
            raise MessageTooLarge(f"the properties have {len(encoded)} bytes, limit {bytes_max}")
        if elsewhere:
            messages: list[Message] = [(flag, body, encoded, elsewhere.tags_code)]
            return Placed(elsewhere.queue, messages, elsewhere.appended)
        messages = [(flag, body, encoded, self.tags_code_of(text))]
        return Placed(self._queues.get(topic, queue_id), messages)

    def place_batch(self, topic: str, queue_id: int, messages: list[Message]) -> Placed:
        """Say where the complete messages of a batch are stored."""
        return Placed(self._queues.get(topic, queue_id), messages)

    def tags_code_of(self, properties: str) -> int:
        """Return what the queue keeps of a message's tags."""
        return self._appender.tag_hashes.of(properties)

    def append(
        self, placed: Placed, sys_flag: int, born_timestamp: int, stamp: bytes
    ) -> tuple[list[int], int]:
        """Store them; return their positions and the first one's queue offset.

        Raises the errors of CommitLog.append, and has then done nothing.
        """
        offset = placed.queue.stored.max_offset
        positions = self._appender.append(
            placed.queue, sys_flag, born_timestamp, stamp, placed.messages
        )
        if placed.appended is not None:
            placed.appended()
        return positions, offset
