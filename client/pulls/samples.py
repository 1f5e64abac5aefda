"""Statistics of consumers as plain numbers with names and labels, for whoever exports them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import QueueStatistics
from aerobee.client.pulls.statistics import TopicStatistics


class StatisticSample(NamedTuple):
    """One number of a client at this moment, as metrics systems take it.

        for sample in consumer.samples():
            print(sample.name, sample.labels, sample.value)

    A counter only grows while the client runs, and its name ends with `_total`; all else goes up
    and down. Units are in the names: seconds, bytes, messages. `labels` are `group`, and where they
    apply `topic`, `broker` and `queue`.
    """

    name: str
    value: float
    labels: dict[str, str]
    help: str

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


def of_topics(group: str, topics: Mapping[str, TopicStatistics]) -> Iterator[StatisticSample]:
    """Yield what was pulled and handled of each topic since the start."""
    for topic, each in topics.items():
        labels = {"group": group, "topic": topic}
        yield StatisticSample("pulls_total", each.pulls, labels, "Pulls that brought messages.")
        yield StatisticSample("messages_pulled_total", each.pulled, labels, "Messages pulled.")
        yield StatisticSample(
            "pull_seconds_total", each.pull_s, labels, "Time from pulls to replies with messages."
        )
        yield StatisticSample("handler_calls_total", each.calls, labels, "Calls of handlers.")
        yield StatisticSample(
            "handler_seconds_total", each.call_s, labels, "Time that handlers took."
        )
        yield StatisticSample(
            "messages_succeeded_total", each.succeeded, labels, "Messages that are done."
        )
        yield StatisticSample(
            "messages_failed_total", each.failed, labels, "Messages whose handler failed."
        )


def of_queues(
    group: str, queues: Mapping[MessageQueue, QueueStatistics]
) -> Iterator[StatisticSample]:
    """Yield what is held of each queue that is read."""
    for queue, each in queues.items():
        labels = {
            "group": group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": str(queue.queue_id),
        }
        yield StatisticSample(
            "queue_messages", each.messages, labels, "Messages fetched and not done."
        )
        yield StatisticSample("queue_bytes", each.bytes, labels, "Bytes of their bodies, unpacked.")
        yield StatisticSample(
            "queue_next_offset", each.next_offset, labels, "The offset that is pulled next."
        )
        yield StatisticSample(
            "queue_unreadable_messages",
            each.unreadable,
            labels,
            "Messages that could not be read since the queue is read here.",
        )
