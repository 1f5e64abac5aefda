"""Where messages are stored, and as what: in their own queue, or in that of a delay level."""

from dataclasses import dataclass

from aerobee.broker.appending import Message
from aerobee.broker.context import Context
from aerobee.broker.delay_levels import delay_level
from aerobee.broker.topic_queues import TopicQueue
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, join_properties
from aerobee.storage.delays.progress import DELIVERED_BYTES_MAX, DELIVERED_PROPERTY
from aerobee.storage.errors import MessageTooLarge


@dataclass(frozen=True, slots=True)
class Placed:
    """Complete messages and the queue in which they are stored."""

    queue: TopicQueue
    messages: list[Message]
    due_ms: int | None = None  # None: they do not wait


def place(
    ctx: Context,
    topic: str,
    queue_id: int,
    flag: int,
    body: bytes | memoryview,
    properties: dict[str, str],
    now_ms: int,
) -> Placed:
    """Complete a message that is stored at `now_ms`; `properties` are changed where it waits.

    Raises MessageTooLarge for properties that are too long, those included that a delayed message
    gets later, and RequestError for a delay level that is none.
    """
    properties.pop(DELIVERED_PROPERTY, None)  # ours alone: recovery believes it
    level = delay_level(properties)
    due = None
    bytes_max = PROPERTIES_BYTES_MAX
    if level:
        queue, due = ctx.delays.place(properties, topic, queue_id, level, now_ms)
        bytes_max -= DELIVERED_BYTES_MAX
    else:
        queue = ctx.queues.get(topic, queue_id)
    text = join_properties(properties)
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > bytes_max:
        raise MessageTooLarge(f"the properties have {len(encoded)} bytes, limit {bytes_max}")
    tags_code = ctx.appender.tag_hashes.of(text) if due is None else due
    return Placed(queue, [(flag, body, encoded, tags_code)], due)


def append(
    ctx: Context, placed: Placed, sys_flag: int, born_timestamp: int, stamp: bytes
) -> tuple[list[int], int]:
    """Store them; return their positions and the first one's queue offset.

    Raises the errors of CommitLog.append, and has then done nothing.
    """
    offset = placed.queue.stored.max_offset
    positions = ctx.appender.append(placed.queue, sys_flag, born_timestamp, stamp, placed.messages)
    if placed.due_ms is not None:
        ctx.delays.waits(placed.due_ms)
    return positions, offset
