"""Letting members that are not ours finish before they hear that their group has changed.

A Java or Go client that loses a queue commits the oldest message that it has not finished; what
it has finished beyond that is delivered again. So when a group changes, the pulls of its queues
wait as on empty ones, and the notice (40) that makes members share queues anew waits, too, until
what was fetched is consumed: then nothing is under way that could come twice. It shows in the
pulls themselves, which carry the offset that a member would commit.

A client that hears of a change in one group shares the queues of all its groups anew, and some do
so by a timer: whoever asks for the members (38) of a group that is being drained is answered when
that is done.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aerobee.broker.members import Members
from aerobee.broker.owned_queue import OwnedQueue, Timer
from aerobee.broker.queue_owners import Later, QueueOwners, Surroundings
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

POLL_MS: Final = 30  # between two answers to a waiting pull, each of which brings a fresh offset
SETTLE_MS: Final = 50  # in which a member that asked for the others (38) drops what it lost
SETTLE_MS_MAX: Final = 1500  # Java begins to share at most once a second
HELD_MAX: Final = 10_000  # questions for the members of one group, of all who ask
ACTIVELY: Final = "CONSUME_ACTIVELY"  # lite pull: its pulls do not say what was consumed


@dataclass(slots=True, eq=False)
class Drain:
    """One group whose members finish; `left` are the queues of which something is under way.

    `held` answers those who have asked for the members meanwhile.
    """

    began_ms: int
    queues: list[OwnedQueue]
    left: dict[OwnedQueue, None] = field(default_factory=dict)
    timer: Timer | None = None
    told: bool = False
    held: list[Callable[[], None]] = field(default_factory=list)


class Draining:
    """Passes notices on to `notify(group, members)`, when foreign members have finished.

    That takes `limit_ms()` at most, 0 lets nobody wait. A group is not drained again before as much
    time has passed as its last draining took: its members consume at least half of the time.
    """

    def __init__(
        self,
        members: Members,
        owners: QueueOwners,
        around: Surroundings,
        clock_ms: Callable[[], int],
        later: Later,
        limit_ms: Callable[[], int],
        notify: Callable[[str, list[Connection]], None],
    ) -> None:
        self._members = members
        self._owners = owners
        self._around = around
        self._clock_ms = clock_ms
        self._later = later
        self._limit_ms = limit_ms
        self._notify = notify
        self._drains: dict[str, Drain] = {}
        self._rests: dict[str, Timer] = {}  # groups that were drained a short time ago

    def __len__(self) -> int:
        return len(self._drains) + len(self._rests)

    def __call__(self, group: str, connections: list[Connection]) -> None:
        """A group has changed: tell its members, at once or when they have finished."""
        drain = self._drains.get(group)
        if drain is not None and not drain.told:
            return  # they will hear of this change, too
        queues = self._foreign(group) if self._limit_ms() and drain is None else []
        if not queues or group in self._rests:
            self._notify(group, connections)
            return
        drain = self._drains[group] = Drain(self._clock_ms(), queues, dict.fromkeys(queues))
        for queue in queues:
            queue.draining = True
            assert queue.owner is not None
            self._owners.link(queue, queue.owner.connection)
        self._poll(group, drain)

    def pulled(self, queue: OwnedQueue, *, finished: bool) -> None:
        """The owner of a draining queue has pulled; `finished` if nothing is under way."""
        drain = self._drains.get(queue.key.group)
        if drain is not None and not drain.told and finished:
            drain.left.pop(queue, None)
            if not drain.left:
                self._tell(queue.key.group, drain)

    def put_on_hold(self, group: str, answer: Callable[[], None]) -> bool:
        """Whether who asks for a group's members has to wait; `answer` is called when it has."""
        drain = self._drains.get(group)
        if drain is None or drain.told or len(drain.held) >= HELD_MAX:
            return False
        drain.held.append(answer)
        return True

    def asked_members(self, connection: Connection, group: str) -> None:
        """A member begins to share queues anew: soon it knows which ones it keeps."""
        drain = self._drains.get(group)
        if drain is not None and drain.told:
            self._later(SETTLE_MS / 1000, lambda: self._settled(connection, group, drain))

    def _foreign(self, group_name: str) -> list[OwnedQueue]:
        """Return the queues of members whose pulls say how far they are, and who keep them."""
        group = self._members.group(group_name)
        if group is None or group.consume_type == ACTIVELY:
            return []
        return [
            queue
            for connection, member in group.members.items()
            if member.handover_timeout_ms is None
            for queue in self._owners.owned_by(connection, group_name)
            if not (queue.leaving or queue.let_go_for_good)
        ]

    def _poll(self, group: str, drain: Drain) -> None:
        """Have the owners pull again, which shows how far they are; end when the time is up."""
        drain.left = {queue: None for queue in drain.left if queue.draining}
        if not drain.left or self._clock_ms() - drain.began_ms >= self._limit_ms():
            self._tell(group, drain)
            return
        drain.timer = self._later(POLL_MS / 1000, lambda: self._poll(group, drain))
        for queue in list(drain.left):
            if queue.owner is not None:
                self._around.end_pulls(queue.owner.connection, queue.key)

    def _tell(self, group_name: str, drain: Drain) -> None:
        """Tell the members that their group has changed; wait until they know what they keep."""
        if drain.timer is not None:
            drain.timer.cancel()
        drain.told = True
        if drain.left:
            log.info("not_finished group=%s queues=%d", group_name, len(drain.left))
        group = self._members.group(group_name)
        if group is not None:
            self._notify(group_name, list(group.members))
        drain.timer = self._later(SETTLE_MS_MAX / 1000, lambda: self._over(group_name, drain))
        for answer in drain.held:
            answer()
        drain.held.clear()

    def _settled(self, connection: Connection, group: str, drain: Drain) -> None:
        """Let a member pull again what it kept, unless it still waits for what it gained."""
        if self._owners.asks.get(connection):
            self._later(SETTLE_MS / 1000, lambda: self._settled(connection, group, drain))
            return
        kept = [queue for queue in drain.queues if queue.draining]
        self._resume([queue for queue in kept if queue.is_owned_by(connection)])
        if self._drains.get(group) is drain and not any(queue.draining for queue in kept):
            self._over(group, drain)

    def _over(self, group: str, drain: Drain) -> None:
        del self._drains[group]
        if drain.timer is not None:
            drain.timer.cancel()
        self._resume([queue for queue in drain.queues if queue.draining])
        rest_s = (self._clock_ms() - drain.began_ms) / 1000
        self._rests[group] = self._later(rest_s, lambda: self._rested(group))

    def _rested(self, group: str) -> None:
        del self._rests[group]

    def _resume(self, queues: list[OwnedQueue]) -> None:
        for queue in queues:
            queue.draining = False
            if queue.owner is not None:
                self._owners.link(queue, queue.owner.connection)
                self._around.wake_pulls(queue.key)
