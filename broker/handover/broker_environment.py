"""What a hand-over does to the rest of the broker: pulls that wait, notices, offsets, locks."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aerobee.broker.handover.environment import Environment, Holdings
from aerobee.broker.handover.owned_queue import Timer
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.bodies import QueueBody
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.net.connection import Connection

if TYPE_CHECKING:
    from aerobee.broker.handover.member_calls import MemberCalls
    from aerobee.broker.handover.queue_locks import QueueLocks
    from aerobee.broker.pulls.held import Holds
    from aerobee.broker.tables.committed import OffsetTable
    from aerobee.broker.writing.queues import TopicQueues


class WaitingPulls:
    """The pulls that wait, found by group and queue."""

    def __init__(self, holds: "Holds", queues: "TopicQueues") -> None:
        self._holds = holds
        self._queues = queues

    def wake(self, key: GroupQueue) -> None:
        """Serve the pulls that wait on a queue, whatever their group."""
        queue = self._queues.find(key.topic, key.queue_id)
        if queue is not None:
            self._holds.wake([queue])

    def end(self, connection: Connection, key: GroupQueue) -> None:
        """Answer those of a connection and group as if their time was up."""
        queue = self._queues.find(key.topic, key.queue_id)
        if queue is not None:
            self._holds.end(queue, connection, key.group)

    def offset_of(self, connection: Connection, key: GroupQueue) -> int | None:
        """Return the offset at which one of a connection and group waits, None if none does."""
        queue = self._queues.find(key.topic, key.queue_id)
        return None if queue is None else self._holds.offset_of(queue, connection, key.group)


class BrokerEnvironment(Environment):
    """The parts of a broker that hand-overs need, each by what they need of it."""

    def __init__(
        self,
        broker_name: str,
        calls: "MemberCalls",
        pulls: WaitingPulls,
        offsets: "OffsetTable",
        locks: "QueueLocks",
    ) -> None:
        self._broker_name = broker_name
        self._calls = calls
        self._pulls = pulls
        self._offsets = offsets
        self._locks = locks

    def clock_ms(self) -> int:
        """Return the time, by a clock that never jumps."""
        return steady_clock_ms()

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Have something done later, unless that is cancelled."""
        return asyncio.get_running_loop().call_later(delay_s, call)

    def committed(self, key: GroupQueue) -> int | None:
        """Return the committed offset of a queue."""
        return self._offsets.committed(*key)

    def fetched(self, key: GroupQueue) -> int | None:
        """Return the offset before which a group has fetched all, None where it has nothing."""
        return self._offsets.pull_offset(*key)

    def commit(self, key: GroupQueue, offset: int) -> None:
        """Commit for a group what a member has done that does not say so itself."""
        self._offsets.commit(*key, offset)

    def locked_by(self, key: GroupQueue) -> str | None:
        """Return the client that has locked a queue for orderly consumption."""
        queue = QueueBody(topic=key.topic, broker_name=self._broker_name, queue_id=key.queue_id)
        return self._locks.holder(key.group, queue)

    def wake_pulls(self, key: GroupQueue) -> None:
        """Serve the pulls that wait on a queue: some of them may read now."""
        self._pulls.wake(key)

    def end_pulls(self, connection: Connection, key: GroupQueue) -> None:
        """Answer a connection's waiting pulls as if their time was up."""
        self._pulls.end(connection, key)

    def holds_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether a pull of this connection waits on the queue."""
        return self._pulls.offset_of(connection, key) is not None

    def pulls_at(self, connection: Connection, key: GroupQueue) -> int | None:
        """Return the offset at which a pull of this connection waits, None if none does."""
        return self._pulls.offset_of(connection, key)

    def tell(self, connection: Connection, key: GroupQueue) -> None:
        """Let an owner rebalance at once (40), whatever made somebody else ask for its queue."""
        self._calls.remind(connection, key.group)

    def notify(self, group: str, members: list[Connection]) -> None:
        """Tell members that their group has changed (40)."""
        self._calls.notify(group, members)

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Ask a member what it holds (307); `answered` gets None where it does not say."""
        self._calls.ask_holdings(connection, group, answered)

    def caught(self, what: str, error: Exception, client_id: str) -> None:
        """Count a fault that nobody foresaw, of one member alone."""
        self._calls.caught(what, error, client_id)
