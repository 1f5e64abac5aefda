"""What a hand-over does to the rest of the broker: pulls that wait, notices, offsets, locks."""

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from aerobee.broker.handover.handed_out import Holdings
from aerobee.broker.handover.owners import Surroundings
from aerobee.broker.members.queue_key import QueueKey
from aerobee.remoting.bodies import ConsumerRunningInfo, MessageQueue, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers._fields import encode_header
from aerobee.remoting.headers.heartbeat import ConsumerRunningInfoRequest
from aerobee.remoting.net.connection import Connection

if TYPE_CHECKING:
    from aerobee.broker.handover.queue_locks import QueueLocks
    from aerobee.broker.members.notices import ChangeNotices
    from aerobee.broker.members.registry import Members
    from aerobee.broker.pulls.held import Holds
    from aerobee.broker.tables.committed import OffsetTable
    from aerobee.broker.writing.queues import TopicQueues

log = logging.getLogger(__name__)

HOLDINGS_TIMEOUT_S: Final = 2.0
HOLDINGS_BYTES_MAX: Final = 1 << 20  # some 3,000 queues, 25 ms of the loop's time


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
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._broker_name = broker_name
        self._holds = holds
        self._queues = queues
        self._offsets = offsets
        self._locks = locks
        self._notices = notices
        self._members = members
        self._start = start

    def committed(self, key: QueueKey) -> int | None:
        """Return the committed offset of a queue."""
        return self._offsets.committed(*key)

    def fetched(self, key: QueueKey) -> int | None:
        """Return the offset before which a group has fetched all, None where it has nothing."""
        return self._offsets.pull_offset(*key)

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
        return self.pulls_at(connection, key) is not None

    def pulls_at(self, connection: Connection, key: QueueKey) -> int | None:
        """Return the offset at which a pull of this connection waits, None if none does."""
        queue = self._queues.find(key.topic, key.queue_id)
        return None if queue is None else self._holds.offset_of(queue, connection, key.group)

    def commit(self, key: QueueKey, offset: int) -> None:
        """Commit for a group what a member has done that does not say so itself."""
        self._offsets.commit(*key, offset)

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Ask a member what it holds (307); `answered` gets None where it does not say.

        So does who says it in more than HOLDINGS_BYTES_MAX: reading that would hold up others.
        """
        self._start(self._ask_holdings(connection, group, answered))

    async def _ask_holdings(
        self, connection: Connection, group_name: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        group = self._members.group(group_name)
        member = group.members.get(connection) if group is not None else None
        client_id = member.client.client_id if member is not None else ""
        holdings = None
        try:
            if member is not None:
                holdings = await self._holdings(connection, group_name, client_id)
        except AerobeeError as error:
            log.warning("no_holdings group=%s client=%s error=%s", group_name, client_id, error)
        except Exception:  # or who asked would wait for ever, and never ask this member again
            log.exception("no_holdings group=%s client=%s", group_name, client_id)
        answered(holdings)

    async def _holdings(
        self, connection: Connection, group_name: str, client_id: str
    ) -> Holdings | None:
        header = ConsumerRunningInfoRequest(consumer_group=group_name, client_id=client_id)
        command = Command(code=RequestCode.GET_CONSUMER_RUNNING_INFO, ext=encode_header(header))
        reply = await connection.call(command, HOLDINGS_TIMEOUT_S)
        if reply.code != ResponseCode.SUCCESS or len(reply.body) > HOLDINGS_BYTES_MAX:
            return None
        return Holdings.of(decode_body(ConsumerRunningInfo, reply.body), self._broker_name)
