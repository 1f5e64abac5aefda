"""What has come in and gone out, by topic and group."""

from collections import Counter
from collections.abc import Iterator

from aerobee.broker.measures.kinds import (
    is_retry,
    is_system_group,
    message_type,
    system_topics,
    true_or_false,
)
from aerobee.broker.measures.values import Values
from aerobee.broker.start.context import Context


def traffic(ctx: Context, values: Values) -> Iterator[None]:
    """Add what there is of every topic, and group; yields after each.

    Nothing was counted for it but what queues and pulls count anyway. What goes to retry topics and
    dead letters, and out of them, is not told, as in RocketMQ: it has come in before.
    """
    is_system = system_topics(ctx.settings)
    arrived: Counter[str] = Counter()
    arrived_bytes: Counter[str] = Counter()
    for queue in ctx.writing.queues.used():
        arrived[queue.name] += queue.stored.max_offset - queue.start_offset
        arrived_bytes[queue.name] += queue.arrived_bytes
        yield
    for topic, count in arrived.items():
        if is_retry(topic):
            continue
        labels = {
            "topic": topic,
            "message_type": message_type(ctx.tables.topics, topic),
            "is_system": true_or_false(is_system(topic)),
        }
        values.add("rocketmq_messages_in_total", count, **labels)
        values.add("rocketmq_throughput_in_total", arrived_bytes[topic], **labels)
        yield
    for (topic, group), out in list(ctx.health.metrics.outgoing.items()):
        if is_retry(topic):
            continue
        labels = {
            "topic": topic,
            "consumer_group": group,
            "is_system": true_or_false(is_system(topic) or is_system_group(group)),
        }
        values.add("rocketmq_messages_out_total", out.messages, **labels)
        values.add("rocketmq_throughput_out_total", out.size_bytes, **labels)
        yield
    for (topic, group), count in list(ctx.health.metrics.dead_letters.items()):
        system = true_or_false(is_system(topic) or is_system_group(group))
        labels = {"topic": topic, "consumer_group": group, "is_system": system}
        values.add("rocketmq_send_to_dlq_messages_total", count, **labels)
        yield
