"""How much a nameserver keeps of what anybody may register: its memory has an end."""

from aerobee.remoting.bodies import QueueData, TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.errors import RequestError
from aerobee.remoting.queue_counts import QUEUES_MAX, wrong_count


class Capacity:
    """The limits of a route table: `check` refuses by the setting's name what would pass one.

    `entries_max` is the number of (topic, broker) pairs: what one broker has of one topic.
    """

    def __init__(
        self, brokers_max: int, topics_max: int, entries_max: int, complaints: Complaints
    ) -> None:
        self.entries = 0
        self._brokers_max = brokers_max
        self._topics_max = topics_max
        self._entries_max = entries_max
        self._complaints = complaints

    def check_brokers(self, count: int) -> None:
        """Raise RequestError where so many brokers leave no room for another one."""
        if count >= self._brokers_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{count} brokers are registered (brokersMax)"
            )

    def check_topics(self, topics: int, new_entries: int) -> None:
        """Raise RequestError for so many topics, or so many more of brokers' topics."""
        if topics > self._topics_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{topics} topics would be registered (topicsMax)"
            )
        if new_entries and self.entries + new_entries > self._entries_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{self.entries + new_entries} topics of brokers would be registered, each broker's"
                " counted (routeEntriesMax)",
            )

    def believes(self, topic: str, name: str, config: TopicConfig) -> bool:
        """Whether a topic can have so many queues; that it cannot is told in the log."""
        wrong = wrong_count(config.read_queue_nums, config.write_queue_nums)
        if wrong is not None:
            self._complaints.tell(
                "topic left out topic=%.300s broker=%s queues=%d allowed=%d; correct it there",
                topic, name, wrong, QUEUES_MAX,
            )  # fmt: skip
        return wrong is None


def check_queues(topic: str, queues: QueueData) -> None:
    """Raise RequestError where somebody sets more queues than a topic can have."""
    wrong = wrong_count(queues.read_queue_nums, queues.write_queue_nums)
    if wrong is not None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"topic {topic[:300]!r} on broker {queues.broker_name} cannot have {wrong} queues,"
            f" allowed: 0 to {QUEUES_MAX}",
        )
