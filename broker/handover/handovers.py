"""Hand-over without duplicates: nobody gets a queue's offset before its owner has given it up.

What members do is told here; `queue_owners` moves queues, HANDOVER.md draws the states.
"""

import logging
from collections.abc import Callable, Iterable, Sized
from typing import Final

from aerobee.broker.handover.draining import QUICK_MS, Draining
from aerobee.broker.handover.environment import Environment, HandoverLimits
from aerobee.broker.handover.owned_queue import Ask, Claim, Holder, OwnedQueue, Verdict
from aerobee.broker.handover.owner_pulls import OwnerPulls
from aerobee.broker.handover.owners import STALLED_MS, QueueOwners
from aerobee.broker.handover.rebalance_signs import RebalanceSigns
from aerobee.broker.handover.returning_members import ReturningMembers, holder_of
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

LINGER_MS: Final = 500  # in which a member that has left may still commit (Go does it last)
ASKS_PER_CONNECTION_MAX: Final = 10_000


class Handovers:
    """Lets requests for a queue's offset wait for its owner; tells whose pulls and commits count.

    Of pulls, `begin_pull`, `may_pull`, `goes_on_at` and `takes_commit` need be asked only while
    there is anybody in `watched` or in `fresh`.

    Invariants: every ask is answered within `wait_ms`; commits are taken of one owner alone among
    those that own a queue or did; who has left is in no table.
    """

    def __init__(
        self,
        members: Members,
        environment: Environment,
        limits: HandoverLimits,
    ) -> None:
        self._members = members
        self._environment = environment
        self._clock_ms = environment.clock_ms
        self._later = environment.later
        self._wait_ms, self._drain_ms = limits.wait_ms, limits.drain_ms
        self._holds = limits.wait_ms() > 0
        self._queues_max = limits.queues_max
        self._signs = RebalanceSigns(environment.clock_ms)
        self._owners = QueueOwners(environment, limits.wait_ms)
        self._returning = ReturningMembers(members, self._owners, environment, limits)
        self._draining = Draining(members, self._owners, environment, limits.drain_ms)
        self._pulls = OwnerPulls(
            members, self._owners, self._signs, environment, lambda: limits.drain_ms() > 0
        )
        self._queues = self._owners.queues
        self.watched = self._owners.watched
        self.fresh = self._returning.fresh
        self.given = self._owners.given
        self.commits_ignored = 0
        self._complaints = Complaints(environment.clock_ms, log, logging.INFO)

    @property
    def owned(self) -> int:
        """How many queues have an owner, or had one that is still there."""
        return len(self._queues)

    @property
    def waiting(self) -> int:
        """How many requests wait for an owner."""
        return sum(map(len, self._owners.asks.values()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered of anybody."""
        tables = (self._queues, self._owners.of, self._owners.asks, self.watched, self.fresh)
        parts: tuple[Sized, ...] = (self._signs, self._draining, self._pulls)
        return not any(tables) and not any(len(part) for part in parts)

    def owner(self, key: GroupQueue) -> Holder | None:
        """Return who owns a queue."""
        queue = self._queues.get(key)
        return queue.owner if queue is not None else None

    # --- what members do ---

    def ask(
        self, connection: Connection, key: GroupQueue, answer: Callable[[Verdict], None]
    ) -> Verdict | None:
        """A connection asks for a queue's offset (14); None when `answer` will be called later."""
        holder = holder_of(self._members, connection, key)
        if holder is None or not self._wait_ms():
            return Verdict.OFFSET
        queue = self._queues.get(key)
        if queue is None:
            if len(self._queues) >= self._queues_max:
                return Verdict.OFFSET
            queue = self._queues[key] = OwnedQueue(key)
        if queue.is_owned_by(connection):
            queue.signs.none()
            queue.stay()
            return Verdict.OFFSET
        why = self._free(queue, holder)
        if why:
            self._owners.give(queue, holder, why)
            return Verdict.OFFSET
        if len(self._owners.asks.get(connection, ())) >= ASKS_PER_CONNECTION_MAX:
            return Verdict.OFFSET
        circle = queue.owner is not None and self._owners.waits_for(queue.owner, holder)
        if circle and not self._pulls.show_progress(queue):
            self._owners.give(queue, holder, "deadlock")
            return Verdict.OFFSET
        ask = self._owners.put_on_hold(queue, holder, answer)
        if circle:
            limit_ms = min(self._drain_ms(), QUICK_MS)
            self._later(limit_ms / 1000, lambda: self._break_circle(ask))
        self._pulls.asked_for(queue)
        return None

    def release(self, connection: Connection, keys: Iterable[GroupQueue]) -> None:
        """A connection gives queues up (42)."""
        for key in keys:
            queue = self._queues.get(key)
            if queue is None:
                continue
            if queue.is_owned_by(connection):
                self._owners.vacate(queue, "released")
            elif queue.forget(connection):
                self._owners.link(queue, connection)
            self._environment.end_pulls(connection, key)

    def takes_commit(self, connection: Connection, key: GroupQueue, offset: int) -> bool:
        """Whether a commit counts: not a former owner's, nor one that goes back behind others'."""
        queue = self._queues.get(key)
        if queue is None:
            if not self._returning.comes_late(connection, key, offset):
                return True
        elif self._counts(connection, queue, offset):
            return True
        self.commits_ignored += 1
        self._complaints.tell(
            "commit_ignored group=%s topic=%s queue=%d offset=%d remote=%s",
            *key,
            offset,
            connection.remote,
        )
        return False

    def _counts(self, connection: Connection, queue: OwnedQueue, offset: int) -> bool:
        self._returning.recognise(queue, connection)
        if queue.is_owned_by(connection):
            if offset >= queue.floor:
                if queue.floor:
                    queue.take_from(0)
                    self._owners.link(queue, connection)
                return True
            return False
        return connection not in queue.formers

    def committed(self, connection: Connection, key: GroupQueue) -> None:
        """A commit of its own (15) has come: it may be the last one before a queue is given up."""
        queue = self._queues.get(key)
        if queue is None or not queue.is_owned_by(connection):
            return
        if queue.leaving:
            self._owners.vacate(queue, "left", former=True)
            return
        change = self._signs.change(key.group)
        queue.signs.committed(change)
        asked = self._signs.has_asked(connection, key.group)
        if (asked or queue.signs.rebalanced_in == change > 0) and self._pulls.give_signs(queue):
            queue.signs.let_go(change)
            self._owners.let_go(queue)

    def ask_members(
        self, connection: Connection, group: str, answer: Callable[[list[str] | None], None]
    ) -> bool:
        """A connection asks who is in a group (38); False when `answer` will be called later.

        Members do so that are about to rebalance: what is not ours begins when all have finished.
        `answer` gets the clients; where that takes long, those with which nothing is to be changed
        yet, None if they are not known.
        """
        members = self._members.group(group)
        member = members.members.get(connection) if members is not None else None
        if member is None:
            return True

        def late(members_stand: bool) -> None:
            if not connection.closed:
                if members_stand:
                    self._asked_members(connection, group)
                    answer(self._members.client_ids(group))
                else:
                    answer(self._draining.members_before(connection, group))

        if member.handover_timeout_ms is None and self._draining.put_on_hold(
            connection, group, late
        ):
            return False
        self._asked_members(connection, group)
        return True

    def _asked_members(self, connection: Connection, group: str) -> None:
        """A member is told who is in its group: what it commits from now on may be a release."""
        members = self._members.group(group)
        if members is not None and connection in members.members:
            self._signs.asked(connection, group)
            self._draining.asked_members(connection, group)
            self._pulls.asked_members(connection, group)

    # --- pulls ---

    def begin_pull(
        self, connection: Connection, key: GroupQueue, offset: int = 0, *, finished: bool = False
    ) -> bool:
        """A watched connection's pull has come; False if it must wait as on an empty queue.

        `finished` says that the puller would commit all that it has fetched.
        """
        queue = self._queues.get(key)
        if queue is None:
            if connection in self.fresh:
                self._returning.adopt(connection, key)
            return True
        self._returning.recognise(queue, connection)
        if queue.is_owned_by(connection):
            assert queue.owner is not None
            queue.owner.pulls(self._clock_ms())
            if queue.unseen:
                queue.seen(offset if self._environment.committed(key) is None else None)
                self._owners.link(queue, connection)
            finished = finished or offset == queue.began  # it has fetched nothing
            goes_on = queue.draining and self._draining.pulled(queue, finished=finished)
            if queue.contested:
                self._pulls.pulled(queue, finished=finished)
            return queue.is_owned_by(connection) and (goes_on or not queue.waits)
        former = queue.formers.get(connection)
        if former is None:
            return True
        if queue.claim is Claim.FREE:
            self._owners.regain(queue, former)
            return True
        self._owners.look_later(queue, STALLED_MS)
        return False

    def is_settled(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether `begin_pull` and `takes_commit` need not be asked of a connection that is fresh.

        It has been seen to own the queue, or is of nobody who ever owns one; who is in `watched`
        must ask all the same.
        """
        queue = self._queues.get(key)
        if queue is not None and queue.is_owned_by(connection):
            return True
        return not self._wait_ms() or holder_of(self._members, connection, key) is None

    def goes_on_at(self, connection: Connection, key: GroupQueue, offset: int) -> int | None:
        """Where a pull has to go on that may read now; None: where it is.

        An owner that has the queue again does not read what others have done since: the first pull
        after its return is sent to what is committed. Where it pulls after that is its own affair.
        """
        queue = self._queues.get(key)
        if queue is None or not queue.returned or not queue.is_owned_by(connection):
            return None
        floor = queue.is_back()
        return floor if offset < floor else None

    def may_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether a pull that waited may read now."""
        queue = self._queues.get(key)
        if queue is None:
            return True
        if queue.is_owned_by(connection):
            return not queue.waits
        return connection not in queue.formers

    # --- who comes and goes (members.Watcher) ---

    def joined(self, connection: Connection, group: str) -> None:
        """Look at a new connection's pulls for a while.

        What it pulls may be its own already, see `ReturningMembers`.
        """
        for queue in self._owners.owned_by(connection, group):
            queue.stay()
        self._returning.joined(connection)
        self._draining.joined(connection, group)

    def left(self, connection: Connection, group: str) -> None:
        """Wait a little for the last commits of a member that has left."""
        self._signs.left(connection, group)
        for queue in list(self._owners.of.get(connection, {}).get(group, {}).values()):
            for ask in self._owners.withdraw(queue, connection):
                self._owners.answer(ask, Verdict.OFFSET)
        leaving = self._owners.owned_by(connection, group)
        for queue in leaving:
            queue.leave()
        if leaving:
            self._later(LINGER_MS / 1000, lambda: self._linger_over(connection, group))

    def changed(self, group: str) -> None:
        """A group shares its queues anew: signs that were given before do not count."""
        if self._members.group(group) is None:
            self._signs.gone(group)
            self._draining.gone(group)
        else:
            self._signs.changed(group)

    def topic_changed(self, group: str, topic: str) -> None:
        """A topic of a group has another number of queues, of which nobody tells its members."""
        self.changed(group)
        members = self._members.group(group)
        if members is not None and any(
            queue.key.topic == topic
            for connection in members.members
            for queue in self._owners.owned_by(connection, group)
        ):
            self._draining.expect_news(group)

    def rebalanced(self, connection: Connection, group: str, topics: list[str]) -> None:
        """A member's heartbeat brought newer versions: its queues of `topics` are others now."""
        change = self._signs.change(group)
        asked = self._signs.has_asked(connection, group)
        for queue in self._owners.owned_by(connection, group):
            if queue.key.topic not in topics or not self._pulls.give_signs(queue):
                continue
            signs = queue.signs
            signs.rebalanced(change)
            nothing_to_commit = asked and self._environment.committed(queue.key) is None
            if signs.let_go_in != change and (signs.committed_in == change or nothing_to_commit):
                signs.let_go(change)
                self._owners.let_go(queue)

    def closed(self, connection: Connection) -> None:
        """Forget a connection that is gone: what it owned is anybody's."""
        self._returning.closed(connection)
        for queue in self._owners.all_of(connection):
            queue.forget(connection)
            self._owners.withdraw(queue, connection)
            if queue.is_owned_by(connection):
                self._owners.vacate(queue, "closed")

    def settings_changed(self) -> None:
        """Begin to hold queues, or end it, where handoverWaitMillis has come from 0 or gone there.

        Of the time in which nothing was held nothing is known: members show by their pulls what
        they own, as after a restart.
        """
        before, self._holds = self._holds, self._wait_ms() > 0
        if before and not self._holds:
            self._owners.forget_all()
        elif self._holds and not before:
            for group in self._members.groups():
                for connection in group.members:
                    self._returning.joined(connection)

    def notify(self, group: str, members: list[Connection]) -> None:
        """Tell a group's members that it has changed, when they have finished what they fetched."""
        self._draining(group, members)

    # --- what this is made of ---

    def _free(self, queue: OwnedQueue, holder: Holder) -> str:
        """Return why somebody may have a queue at once, "" if its owner has to be waited for."""
        owner = queue.owner
        if owner is None:
            return "free"
        if owner.client_id == holder.client_id:
            return "reconnected"
        if queue.claim is Claim.OVERDUE:
            return "overdue"
        if self._draining.has_finished(queue):
            return "finished"
        self._signs.expect(queue.key.group)
        if queue.signs.has_let_go(self._signs.change(queue.key.group)):
            return "let go"
        return ""

    def _break_circle(self, ask: Ask) -> None:
        """Wait no longer for an owner that waits for who asks, and has not finished meanwhile."""
        queue, holder = ask.queue, ask.holder
        if ask in queue.asks and queue.owner and self._owners.waits_for(queue.owner, holder):
            self._owners.give(queue, holder, "deadlock")

    def _linger_over(self, connection: Connection, group: str) -> None:
        for queue in self._owners.owned_by(connection, group):
            if queue.leaving:
                self._owners.vacate(queue, "left", former=True)
