"""How far a group is in a queue, as tools are told of it: 208 and 317."""

from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import OffsetWrapper, QueueBody
from aerobee.storage.queues.consume_queue import ConsumeQueue


def progress_of(
    ctx: Context, group: str, topic: str, queue_id: int
) -> tuple[ConsumeQueue | None, OffsetWrapper]:
    """Return a queue and how far a group is in it, but when what it consumed last was stored."""
    queue = ctx.store.find_queue(topic, queue_id)
    committed = ctx.tables.offsets.committed(group, topic, queue_id)
    if topic in ctx.writing.queues.mapped:  # tools look for it on one broker after the other
        committed = -1 if committed is None else committed
    else:
        committed = max(committed or 0, 0)
    pulled = ctx.tables.offsets.pull_offset(group, topic, queue_id) or 0
    return queue, OffsetWrapper(
        broker_offset=0 if queue is None else queue.max_offset,
        consumer_offset=committed,
        pull_offset=max(committed, pulled),
    )


def queue_body(ctx: Context, topic: str, queue_id: int) -> QueueBody:
    """Name a queue of this broker."""
    return QueueBody(topic=topic, broker_name=ctx.settings.broker_name, queue_id=queue_id)
