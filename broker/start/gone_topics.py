"""What the broker knows of topics, in all rooms, when the store has them no more."""

from collections.abc import Collection

from aerobee.broker.start.context import Context
from aerobee.broker.writing.queues import TopicQueue


def forget_topics(ctx: Context, names: Collection[str]) -> None:
    """Remove what the broker knows of topics that were deleted from the store."""

    def release(queue: TopicQueue) -> None:
        ctx.health.metrics.queue_gone(queue)
        ctx.pulls.holds.release(queue)

    for name in names:
        ctx.writing.queues.drop_topic(name, release)
        ctx.tables.offsets.delete_topic(name)
        ctx.tables.topics.delete(name)
        ctx.cluster.announcements.drop(name)
        ctx.health.metrics.forget(topic=name)
