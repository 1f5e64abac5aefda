"""Members on new connections that go on with queues they had before."""

from typing import Final

from aerobee.broker.handover.environment import Environment, HandoverLimits
from aerobee.broker.handover.owned_queue import Holder, OwnedQueue, Timer
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.net.connection import Connection

ADOPTION_MS: Final = 60_000  # in which pulls of a connection that is new show what it owns
TIMEOUT_MS_MAX: Final = 600_000  # of a member's hand-over time-out: others wait for it


def holder_of(members: Members, connection: Connection, key: GroupQueue) -> Holder | None:
    """Return a connection as owner of a queue, None if it is one of those who never are."""
    group = members.group(key.group)
    member = group.members.get(connection) if group is not None else None
    if member is None or not member.shares(key.topic):
        return None
    timeout_ms = member.handover_timeout_ms
    if timeout_ms is not None:
        timeout_ms = min(max(timeout_ms, 0), TIMEOUT_MS_MAX)
    return Holder(connection, member.client.client_id, timeout_ms)


class ReturningMembers:
    """Finds out what queues a member on a new connection has, by what it pulls and commits.

    A client whose connection was cut, or whose broker was started again, goes on pulling and does
    not ask for its offsets anew. `fresh` are the connections that joined within `ADOPTION_MS`.
    """

    def __init__(
        self,
        members: Members,
        owners: QueueOwners,
        environment: Environment,
        limits: HandoverLimits,
    ) -> None:
        self._members = members
        self._owners = owners
        self._environment = environment
        self._later = environment.later
        self._wait_ms = limits.wait_ms
        self._queues_max = limits.queues_max
        self.fresh: dict[Connection, Timer] = {}

    def joined(self, connection: Connection) -> None:
        """Look at the pulls of a member for a while."""
        self.closed(connection)
        self.fresh[connection] = self._later(
            ADOPTION_MS / 1000, lambda: self._no_longer_fresh(connection)
        )

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection in self.fresh:
            self.fresh.pop(connection).cancel()

    def adopt(self, connection: Connection, key: GroupQueue) -> None:
        """Let a member own a queue that it goes on pulling, and nobody owns."""
        queues, holder = self._owners.queues, holder_of(self._members, connection, key)
        if holder is not None and self._wait_ms() and len(queues) < self._queues_max:
            queue = queues[key] = OwnedQueue(key)
            self._owners.resume(queue, holder, "free")

    def recognise(self, queue: OwnedQueue, connection: Connection) -> None:
        """Take a new connection that uses a queue for the owner's next one, or a former owner's.

        It has the queue from the time before its connection, or this broker, had to begin anew.
        """
        known = queue.is_owned_by(connection) or connection in queue.formers
        if known or connection not in self.fresh or not self._wait_ms():
            return
        holder = holder_of(self._members, connection, queue.key)
        if holder is None:
            return
        if queue.owner is not None and queue.owner.client_id == holder.client_id:
            self._owners.resume(queue, holder, "reconnected")
        else:
            self._owners.remember(queue, holder)

    def comes_late(self, connection: Connection, key: GroupQueue, offset: int) -> bool:
        """Whether a member on a new connection is behind what others committed in its absence."""
        if connection not in self.fresh or not self._wait_ms():
            return False
        behind = offset < (self._environment.committed(key) or 0)
        return behind and holder_of(self._members, connection, key) is not None

    def _no_longer_fresh(self, connection: Connection) -> None:
        del self.fresh[connection]
