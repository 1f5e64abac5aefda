"""A store that is looked at again and again: what is new costs, not what is there."""

from __future__ import annotations

from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_folders import topic_dirs
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.stores import Store, has_queues
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.spark.feeds.followed_log import LogTail
from aerobee.spark.feeds.followed_queues import QueueWatch
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.topics import TopicChoice


class FollowedStore:
    """The log and the wanted queues of one store, from look to look.

    `bounds` are the messages that the last look has found, `replaced` queues whose last known entry
    was not there any more; `anew` says that it knew nothing of the looks before.
    """

    def __init__(self, store: Store, choice: TopicChoice) -> None:
        self.store = store
        self._choice = choice
        self._tail = LogTail(store)
        self._queues = QueueWatch(choice)
        self.state = StoreState(store, [], 0)
        self.anew = True
        self._looked = False
        self.replaced: dict[BrokerQueue, int] = {}
        self.bounds: dict[BrokerQueue, QueueRange] = {}

    @property
    def empty(self) -> bool:
        """Whether the log has no message."""
        return self.state.end <= self.state.start

    def look(self) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages at this moment. Raises StoreUnreadable."""
        self.anew, self._looked = not self._looked, True
        try:
            self.bounds = self._look()
            self.replaced = self._queues.replaced
        except DataLost:  # retention was quicker than the look
            self.bounds = self._look_anew()
        else:
            if self.replaced:
                self.bounds = self._look_anew()
        return self.bounds

    def last_position(self, key: BrokerQueue, offset: int) -> int | None:
        """Where the message before an offset stands, if that is the queue's end; else None."""
        return self._queues.last_position(key, offset)

    def has_deleted(self, key: BrokerQueue) -> bool:
        """Whether a broker has deleted a queue; where what holds the queues is away, none was."""
        if self.empty or not _has_topics(self.store):
            return False
        with ConsumeQueueFiles(queue_dir(self.store, key)) as entries:
            return entries.end == entries.first

    def _look(self) -> dict[BrokerQueue, QueueRange]:
        self.state = self._tail.look()
        return self._queues.look(self.state) if has_queues(self.store) else {}

    def _look_anew(self) -> dict[BrokerQueue, QueueRange]:
        self.anew = True
        self._tail = LogTail(self.store)
        self._queues = QueueWatch(self._choice)
        return self._look()


def _has_topics(store: Store) -> bool:
    """Whether there is any topic's folder among the queues."""
    try:
        return bool(topic_dirs(store.queues_dir))
    except StoreUnreadable:
        return False
