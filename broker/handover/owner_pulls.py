"""What the pulls of owners that are not ours show of queues that others ask for.

A pull carries what its member would commit. One that waits is answered with nothing, upon which a
client pulls again: so an owner shows how far it is whenever the broker wants to know. Where all
that it has fetched is consumed, nothing is under way that could come twice, and the queue can go
to who asks, whatever the owner thinks of it. Where no pull comes, the owner has dropped the queue.
"""

from collections.abc import Callable
from typing import Final

from aerobee.broker.handover.environment import Environment
from aerobee.broker.handover.owned_queue import Holder, OwnedQueue
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.handover.rebalance_signs import RebalanceSigns
from aerobee.broker.members.registry import Members
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import CONSUME_ACTIVELY

POLL_MS: Final = 30  # between two answers to a waiting pull, each of which brings a fresh offset
PROBE_MS: Final = 300  # in which a client pulls again whose pull was answered with nothing


class OwnerPulls:
    """Ends waiting pulls of contested queues, and takes what comes instead for a sign.

    `enabled` is false where no pull is to be ended for what it carries (handoverDrainMillis=0).
    """

    def __init__(
        self,
        members: Members,
        owners: QueueOwners,
        signs: RebalanceSigns,
        environment: Environment,
        enabled: Callable[[], bool],
    ) -> None:
        self._members = members
        self._owners = owners
        self._signs = signs
        self._environment = environment
        self._clock_ms = environment.clock_ms
        self._later = environment.later
        self._enabled = enabled
        self._polled: dict[OwnedQueue, Holder] = {}

    def __len__(self) -> int:
        return len(self._polled)

    def give_signs(self, queue: OwnedQueue) -> bool:
        """Whether an owner's commits and heartbeats say that it gives a queue up.

        Those of ours do not, and those who consume in order do not: both unlock it (42).
        """
        owner = queue.owner
        return (
            owner is not None
            and owner.timeout_ms is None
            and self._environment.locked_by(queue.key) != owner.client_id
        )

    def show_progress(self, queue: OwnedQueue) -> bool:
        """Whether an owner's pulls say how far it is."""
        group = self._members.group(queue.key.group)
        wanted = self._enabled() and group is not None and group.consume_type != CONSUME_ACTIVELY
        return wanted and self.give_signs(queue)

    def asked_for(self, queue: OwnedQueue) -> None:
        """Somebody waits for a queue: look how far its owner is until it has let go."""
        owner = queue.owner
        assert owner is not None, "who asks for a free queue has it"
        if self._polled.get(queue) is not owner and self.show_progress(queue):
            self._polled[queue] = owner
            self._poll(queue, owner)
        self._probe(queue)

    def asked_members(self, connection: Connection, group: str) -> None:
        """A member begins to share queues anew: it may drop what others ask for."""
        for queue in self._owners.owned_by(connection, group):
            if queue.contested:
                self._probe(queue)

    def pulled(self, queue: OwnedQueue, *, finished: bool) -> None:
        """The owner of a contested queue has pulled; `finished` if nothing is under way."""
        owner = queue.owner
        if owner is None or not finished or not queue.asks or not self.show_progress(queue):
            return
        self._owners.give(queue, queue.asks[0].holder, "finished")
        # this pull begins to wait now; if it is one of a client that goes on, another will follow
        self._later(0, lambda: self._environment.end_pulls(owner.connection, queue.key))

    def _poll(self, queue: OwnedQueue, owner: Holder) -> None:
        if queue.owner is owner and queue.contested:
            self._later(POLL_MS / 1000, lambda: self._poll(queue, owner))
            self._environment.end_pulls(owner.connection, queue.key)
        elif self._polled.get(queue) is owner:
            del self._polled[queue]

    def _probe(self, queue: OwnedQueue) -> None:
        """See whether an owner that has begun to rebalance goes on pulling a queue others want.

        Go drops queues without committing each: where no pull comes, the queue is let go.
        """
        owner, group = queue.owner, queue.key.group
        if owner is None or not self._signs.has_asked(owner.connection, group):
            return
        if self.give_signs(queue):
            since_ms = self._clock_ms()
            self._later(PROBE_MS / 1000, lambda: self._probed(queue, owner, since_ms))
            self._environment.end_pulls(owner.connection, queue.key)

    def _probed(self, queue: OwnedQueue, owner: Holder, since_ms: int) -> None:
        if queue.owner is owner and queue.contested and owner.pulled_ms < since_ms:
            queue.signs.let_go(self._signs.change(queue.key.group))
            self._owners.let_go(queue)
