"""Who owns the queues of clustering groups, and how a queue goes from one owner to the next.

The states and what moves a queue between them are in HANDOVER.md. Everything here is sync; the
clock, the timers and what happens to pulls come from outside.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.broker.handover.environment import Environment
from aerobee.broker.handover.owned_queue import Ask, Claim, Holder, OwnedQueue, Verdict, unlink
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

NOTICE_MS: Final = 500  # an owner's time begins when it hears of its loss, not when somebody asks
RENEWAL_MS: Final = 1000  # in which a member of ours asks again that was told to
STALLED_MS: Final = 5000  # an owner that did not pull for so long, while another does, is none
LET_GO_MS: Final = 1000  # likewise, where it has shown that it gave the queue up
STEPS_MAX: Final = 1000  # in the search for owners that wait for each other


class QueueOwners:
    """The owned queues and every move between their states.

    `watched` holds the connections whose pulls somebody must look at, with the queues in question.
    `wait_ms` is handoverWaitMillis. Invariants: a queue has at most one owner; a queue is contested
    while somebody else asks for it, or was told to ask again; only those whom a queue has to do
    with are in `of`, and a queue that nobody has to do with is not in `queues`. `of` is by group,
    too: a connection may have a thousand of them, and each change is one of one group.
    """

    def __init__(self, environment: Environment, wait_ms: Callable[[], int]) -> None:
        self._environment = environment
        self._clock_ms = environment.clock_ms
        self._later = environment.later
        self._wait_ms = wait_ms
        self.queues: dict[GroupQueue, OwnedQueue] = {}
        self.of: dict[Connection, dict[str, dict[GroupQueue, OwnedQueue]]] = {}
        self.asks: dict[Connection, dict[Ask, None]] = {}
        self.watched: dict[Connection, dict[GroupQueue, OwnedQueue]] = {}
        self.on_given: Callable[[OwnedQueue], None] = lambda queue: None
        self.given: Counter[str] = Counter()  # queues that changed hands, by reason

    def owned_by(self, connection: Connection, group: str) -> list[OwnedQueue]:
        """Return the queues of a group that a connection owns."""
        queues = self.of.get(connection, {}).get(group, {})
        return [queue for queue in queues.values() if queue.is_owned_by(connection)]

    def all_of(self, connection: Connection) -> list[OwnedQueue]:
        """Return the queues that a connection has to do with: it owns or owned them, or asks."""
        groups = self.of.get(connection, {}).values()
        return [queue for queues in groups for queue in queues.values()]

    def put_on_hold(
        self, queue: OwnedQueue, holder: Holder, answer: Callable[[Verdict], None]
    ) -> Ask:
        """Let somebody wait for a queue, at most `wait_ms`."""
        ask = Ask(holder, queue, answer, self._clock_ms())
        ask.timer = self._later(self._wait_ms() / 1000, lambda: self._deadline(ask))
        queue.asked(ask)
        self.asks.setdefault(holder.connection, {})[ask] = None
        self.link(queue, holder.connection)
        if not queue.contested:
            self._contest(queue)
        return ask

    def give(self, queue: OwnedQueue, holder: Holder, why: str) -> None:
        """Make somebody the owner; answer what it asked, and let others wait for it.

        What it pulled as a former owner, and still waits, would not hear of the change: that ends
        with nothing, as long as it is not the owner, and it pulls again.
        """
        self._environment.end_pulls(holder.connection, queue.key)
        self._change_owner(queue, holder, why)

    def _change_owner(self, queue: OwnedQueue, holder: Holder, why: str) -> None:
        before, connection = queue.owner, holder.connection
        queue.give(holder)
        asked = [ask for ask in queue.asks if ask.holder.connection is connection]
        for ask in asked:
            self._forget_ask(ask)
        if before is not None:
            self.remember(queue, before)
        self.link(queue, connection)
        self.on_given(queue)
        waited_ms = self._clock_ms() - asked[0].came_ms if asked else 0
        self._note(queue, why, waited_ms)
        if queue.asks:
            self._contest(queue)
        if self._puller(queue) is not None:
            self.look_later(queue, STALLED_MS)
        for ask in asked:
            self.answer(ask, Verdict.OFFSET)
        if before is not None:
            self._environment.end_pulls(before.connection, queue.key)  # who goes on will pull again

    def answer(self, ask: Ask, verdict: Verdict) -> None:
        """Tell who asked; one that cannot be told keeps nobody else from being served."""
        try:
            ask.answer(verdict)
        except Exception as error:  # noqa: BLE001  of that one alone
            self._environment.caught("handover answer", error, ask.holder.client_id)

    def vacate(self, queue: OwnedQueue, why: str, *, former: bool = False) -> None:
        """The owner is none any more: the next one who asks, or still pulls, gets the queue.

        As a `former` owner it may not commit any more; one that has said that it gives the queue
        up has committed before.
        """
        before = queue.owner
        assert before is not None, "only an owner can give up"
        queue.vacate()
        if former:
            self.remember(queue, before)
        self.link(queue, before.connection)
        if queue.asks:
            self.give(queue, queue.asks[0].holder, why)
        elif queue.claim is Claim.FREE:
            self._goes_on(queue)

    def let_go(self, queue: OwnedQueue) -> None:
        """An owner has shown that it gave a queue up: it is not waited for any longer."""
        if queue.asks:
            self.give(queue, queue.asks[0].holder, "let go")
        elif self._puller(queue) is not None and queue.owner is not None:
            queue.owner.is_to_show_itself()
            self._environment.end_pulls(queue.owner.connection, queue.key)
            self.look_later(queue, LET_GO_MS)

    def withdraw(self, queue: OwnedQueue, connection: Connection) -> list[Ask]:
        """A connection asks no more; return its asks, which wait for nothing now."""
        asks = [ask for ask in queue.asks if ask.holder.connection is connection]
        for ask in asks:
            self._forget_ask(ask)
        self.link(queue, connection)
        if asks and not queue.asks:
            self._unasked(queue)
        return asks

    def forget_all(self) -> None:
        """Own nothing for anybody any more: who waits for a queue is answered."""
        keys, asks = list(self.queues), [ask for asks in self.asks.values() for ask in asks]
        for ask in asks:
            self._forget_ask(ask)
        for queue in self.queues.values():
            queue.forget_all()
        self.queues.clear()
        self.of.clear()
        self.watched.clear()
        for ask in asks:
            self.answer(ask, Verdict.OFFSET)
        for key in keys:
            self._environment.wake_pulls(key)

    def regain(self, queue: OwnedQueue, former: Holder) -> None:
        """Give a queue back to a former owner that still pulls it.

        What others committed meanwhile stays, and is not read again: the former owner knows
        nothing of it.
        """
        self.resume(queue, former, "still pulls")
        queue.comes_back()
        self._environment.wake_pulls(queue.key)

    def resume(self, queue: OwnedQueue, holder: Holder, why: str) -> None:
        """Give a queue to somebody who goes on with it: what is committed must not go back."""
        self._change_owner(queue, holder, why)
        queue.resumed(self._environment.committed(queue.key) or 0)
        self.link(queue, holder.connection)

    def look_later(self, queue: OwnedQueue, delay_ms: int) -> None:
        """Find out whether the owner pulls: somebody else does who owned the queue before."""
        if queue.look.is_set and delay_ms >= STALLED_MS:
            return
        since_ms = self._clock_ms()
        queue.look.set(self._later(delay_ms / 1000, lambda: self._look(queue, since_ms)))
        if queue.owner is not None:
            self.link(queue, queue.owner.connection)

    def waits_for(self, owner: Holder, holder: Holder) -> bool:
        """Whether an owner that is not ours waits for `holder` itself, or for one who does.

        Such an owner rebalances topic by topic in one thread for all its groups: it cannot give
        this queue up before it has got that one.
        """
        if owner.timeout_ms is not None:
            return False
        waiting = [owner.connection]
        for connection in waiting:  # which grows meanwhile
            for ask in self.asks.get(connection, ()):
                other = ask.queue.owner
                if other is None or other.connection in waiting:
                    continue
                if other.connection is holder.connection:
                    return True
                waiting.append(other.connection)
            if len(waiting) > STEPS_MAX:
                break
        return False

    def link(self, queue: OwnedQueue, connection: Connection) -> None:
        """Keep the tables of connections true after anything has changed between the two."""
        former = connection in queue.formers
        owner = queue.is_owned_by(connection)
        groups = self.of.setdefault(connection, {})
        if former or owner or any(ask.holder.connection is connection for ask in queue.asks):
            groups.setdefault(queue.key.group, {})[queue.key] = queue
        else:
            unlink(groups, queue.key.group, queue)
        if not groups:
            del self.of[connection]
        watched = queue.waits or queue.floor or queue.unseen or queue.look.is_set
        if former or (owner and watched):
            self.watched.setdefault(connection, {})[queue.key] = queue
        else:
            unlink(self.watched, connection, queue)
        if queue.idle and not queue.renewal.is_set:
            self._drop(queue)

    def _contest(self, queue: OwnedQueue) -> None:
        """Somebody asks for an owned queue: its owner's pulls wait, and its time begins."""
        owner = queue.owner
        assert owner is not None, "a free queue is given, not contested"
        limit_ms = self._wait_ms() if owner.timeout_ms is None else owner.timeout_ms + NOTICE_MS
        queue.contest(self._later(limit_ms / 1000, lambda: self._time_is_up(queue)))
        self.link(queue, owner.connection)
        if not queue.draining:  # or it hears of the change when it has finished
            self._environment.tell(owner.connection, queue.key)

    def _deadline(self, ask: Ask) -> None:
        """An ask has waited as long as it may."""
        queue, holder = ask.queue, ask.holder
        if holder.timeout_ms is None or queue.claim is Claim.OVERDUE or queue.owner is None:
            self.give(queue, holder, "deadline")
            return
        self._forget_ask(ask)
        if not queue.asks:
            queue.renewal.set(self._later(RENEWAL_MS / 1000, lambda: self._not_renewed(queue)))
        self.link(queue, holder.connection)
        self.answer(ask, Verdict.PENDING)

    def _time_is_up(self, queue: OwnedQueue) -> None:
        """The owner did not give the queue up in its time, which does not end while it finishes."""
        if queue.draining:
            queue.limit.set(self._later(NOTICE_MS / 1000, lambda: self._time_is_up(queue)))
            return
        queue.time_is_up()
        if queue.asks:
            self.give(queue, queue.asks[0].holder, "overdue")

    def _not_renewed(self, queue: OwnedQueue) -> None:
        queue.renewal.stop()
        self._unasked(queue)

    def _unasked(self, queue: OwnedQueue) -> None:
        queue.unasked()
        self._goes_on(queue)

    def _goes_on(self, queue: OwnedQueue) -> None:
        """Nobody asks for a queue: its owner goes on, or who still pulls it."""
        owner, puller = queue.owner, self._puller(queue)
        if owner is not None:
            self.link(queue, owner.connection)
            self._environment.wake_pulls(queue.key)
        elif puller is not None:
            self.regain(queue, puller)
        elif queue.idle:
            self._drop(queue)

    def _drop(self, queue: OwnedQueue) -> None:
        queue.stop_alarms()
        self.queues.pop(queue.key, None)

    def _look(self, queue: OwnedQueue, since_ms: int) -> None:
        """Give a queue back to a former owner that pulls it, if the owner does not."""
        queue.look.stop()
        owner, puller = queue.owner, self._puller(queue)
        if owner is None:
            return
        if puller is not None:
            if (
                queue.contested
                or owner.pulled_ms >= since_ms
                or self._environment.holds_pull(owner.connection, queue.key)
            ):
                self.look_later(queue, STALLED_MS)
            else:
                self.regain(queue, puller)
                return
        self.link(queue, owner.connection)

    def _puller(self, queue: OwnedQueue) -> Holder | None:
        """Return the former owner that has a pull waiting, the latest of them."""
        for former in reversed(queue.formers.values()):
            if self._environment.holds_pull(former.connection, queue.key):
                return former
        return None

    def remember(self, queue: OwnedQueue, before: Holder) -> None:
        """Know a former owner as one, until its connection ends."""
        connection = before.connection
        if not connection.closed:
            oldest = queue.remember(before)
            if oldest is not None:
                self.link(queue, oldest)
        self.link(queue, connection)

    def _forget_ask(self, ask: Ask) -> None:
        if ask.timer is not None:
            ask.timer.cancel()
        ask.queue.answered(ask)
        connection = ask.holder.connection
        asks = self.asks[connection]
        del asks[ask]
        if not asks:
            del self.asks[connection]

    def _note(self, queue: OwnedQueue, why: str, waited_ms: int) -> None:
        if why == "free":
            return
        self.given[why] += 1
        log.info(
            "queue_handed_over group=%s topic=%s queue=%d to=%s why=%s waited_ms=%d",
            *queue.key,
            queue.owner.client_id if queue.owner is not None else "",
            why.replace(" ", "_"),
            waited_ms,
        )
