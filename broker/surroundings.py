"""What a hand-over does to the rest of the broker: pulls that wait, notices, offsets, locks."""

from typing import TYPE_CHECKING

from aerobee.broker.owned_queue import QueueKey
from aerobee.broker.queue_owners import Surroundings
from aerobee.remoting.bodies import MessageQueue
from aerobee.remoting.net.connection import Connection

if TYPE_CHECKING:
    from aerobee.broker.change_notices import ChangeNotices
    from aerobee.broker.hold import Holds
    from aerobee.broker.members import Members
    from aerobee.broker.offsets import OffsetTable
    from aerobee.broker.queue_locks import QueueLocks
    from aerobee.broker.topic_queues import TopicQueues


class BrokerSurroundings(Surroundings):
    """The parts of a broker that hand-overs need, each by what they need of it."""

    def __init__(
        self,
        broker_name: str,
        *,
        holds: "Holds",
        queues: "TopicQueues",
        offsets: "OffsetTable",
        locks: "QueueLocks",
        notices: "ChangeNotices",
        members: "Members",
    ) -> None:
        self._broker_name = broker_name
        self._holds = holds
        self._queues = queues
        self._offsets = offsets
        self._locks = locks
        self._notices = notices
        self._members = members

    def committed(self, key: QueueKey) -> int | None:
        """Return the committed offset of a queue."""
        return self._offsets.committed(*key)

    def locked_by(self, key: QueueKey) -> str | None:
        """Return the client that has locked a queue for orderly consumption."""
        queue = MessageQueue(topic=key.topic, broker_name=self._broker_name, queue_id=key.queue_id)
        return self._locks.holder(key.group, queue)

    def tell(self, connection: Connection, key: QueueKey) -> None:
        """Let an owner rebalance at once (40), whatever made somebody else ask for its queue."""
        group = self._members.group(key.group)
        if group is not None and group.notified and connection in group.members:
            self._notices.remind(key.group, connection)

    def wake_pulls(self, key: QueueKey) -> None:
        """Serve the pulls that wait on a queue: some of them may read now."""
        queue = self._queues.find(key.topic, key.queue_id)
        if queue is not None:
            self._holds.wake([queue])

    def end_pulls(self, connection: Connection, key: QueueKey) -> None:
        """Answer a connection's waiting pulls as if their time was up."""
        queue = self._queues.find(key.topic, key.queue_id)
        if queue is not None:
            self._holds.end(queue, connection, key.group)

    def holds_pull(self, connection: Connection, key: QueueKey) -> bool:
        """Whether a pull of this connection waits on the queue."""
        queue = self._queues.find(key.topic, key.queue_id)
        return queue is not None and any(
            held.pull.connection is connection and held.pull.header.consumer_group == key.group
            for held in queue.holds
        )
