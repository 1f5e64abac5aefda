"""Where messages are stored, and as what: in their own queue, or in that of a delay level."""

from dataclasses import dataclass

from aerobee.broker.delays.delivery import DelayService
from aerobee.broker.delays.levels import delay_level
from aerobee.broker.writing.appender import Message
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, join_properties
from aerobee.storage.delays.progress import DELIVERED_BYTES_MAX, DELIVERED_PROPERTY
from aerobee.storage.errors import MessageTooLarge


@dataclass(frozen=True, slots=True)
class Placed:
    """Complete messages and the queue in which they are stored."""

    queue: TopicQueue
    messages: list[Message]
    due_ms: int | None = None  # None: they do not wait


class Placing:
    """Completes messages and stores them, those at once that wait for nothing."""

    def __init__(self, writing: Writing, delays: DelayService) -> None:
        self._queues = writing.queues
        self._appender = writing.appender
        self._delays = delays

    def place(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        body: bytes | memoryview,
        properties: dict[str, str],
        now_ms: int,
    ) -> Placed:
        """Complete a message that is stored at `now_ms`; `properties` are changed where it waits.

        Raises MessageTooLarge for properties that are too long, those included that a delayed
        message gets later, and RequestError for a delay level that is none.
        """
        properties.pop(DELIVERED_PROPERTY, None)  # ours alone: recovery believes it
        level = delay_level(properties)
        due = None
        bytes_max = PROPERTIES_BYTES_MAX
        if level:
            queue, due = self._delays.place(properties, topic, queue_id, level, now_ms)
            bytes_max -= DELIVERED_BYTES_MAX
        else:
            queue = self._queues.get(topic, queue_id)
        text = join_properties(properties)
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > bytes_max:
            raise MessageTooLarge(f"the properties have {len(encoded)} bytes, limit {bytes_max}")
        tags_code = self.tags_code_of(text) if due is None else due
        return Placed(queue, [(flag, body, encoded, tags_code)], due)

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
        if placed.due_ms is not None:
            self._delays.waits(placed.due_ms)
        return positions, offset
