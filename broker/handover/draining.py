"""Members that are not ours finish before they hear that their group has changed.

A Java or Go client that loses a queue commits the oldest message that it has not finished; what
it has finished beyond that is delivered again. So when a group changes, the pulls of its queues
wait as on empty ones, and the notice (40) that makes members share queues anew waits, too, until
what was fetched is consumed: then nothing is under way that could come twice. It shows in the
pulls themselves, which carry the offset that a member would commit.

A client that hears of a change in one group shares the queues of all its groups anew, and some do
so by a timer: whoever asks for the members (38) of a group that is being drained is answered when
that is done, or after a while with those it had before, so that it keeps what it has. That a topic
has more queues or fewer nobody is told here, each client learns it when it asks for the route: for
a minute, who asks for the members finishes before it is answered, alone.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sized
from typing import Final

from aerobee.broker.handover.drain import Drain, Key
from aerobee.broker.handover.environment import Environment
from aerobee.broker.handover.handler_times.sampling import HandlerTimes
from aerobee.broker.handover.held_questions import Answer, HeldQuestions
from aerobee.broker.handover.lite_pull_progress import LitePullProgress
from aerobee.broker.handover.owned_queue import OwnedQueue, Timer
from aerobee.broker.handover.owner_pulls import POLL_MS
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.registry import Members
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import CONSUME_ACTIVELY

log = logging.getLogger(__name__)

SETTLE_MS: Final = 150  # in which a member that asked for the others (38) drops what it lost
SETTLE_MS_MAX: Final = 2000  # Java begins to share at most once a second
NEWS_MS: Final = 60_000  # until every client has asked for the route (30 s) and shared (20 s)
QUICK_MS: Final = 500  # to finish in, of a group that has been too slow
ALONE_MS: Final = 300  # to finish in, of one member alone: nobody tells it to ask again
DROPPED_MS: Final = 300  # without a pull after which a queue is dropped that seemed to be before
MISSES_MAX: Final = 2
LONG_SHARE: Final = 0.6  # of the limit: a handler that was at work for so long is not waited for
QUICK_TIMES: Final = 5  # the limit: to finish in, of members whose handlers are seen to be quick
SLOW_MS: Final = 600_000  # for which a group is taken to be too slow
POLL_QUICKLY_MS: Final = 300
POLL_SLOWLY_MS: Final = 100


class Draining:
    """Passes notices on, when foreign members have finished.

    That takes `limit_ms()` at most, 0 lets nobody wait; of a group that took longer twice in a row,
    QUICK_MS, for ten minutes. How old its messages are says nothing of that: a member may have
    fetched a backlog a moment ago. Where some take long, the others go on until these have
    finished. A group is not drained again before as much time has passed as all of it has rested,
    and hears of no change before that. Where some never finish that is soon, twice in a row.
    """

    def __init__(
        self,
        members: Members,
        owners: QueueOwners,
        environment: Environment,
        limit_ms: Callable[[], int],
    ) -> None:
        self._members = members
        self._owners = owners
        self._environment = environment
        self._clock_ms = environment.clock_ms
        self._later = environment.later
        self._limit_ms = limit_ms
        self._lite_pulls = LitePullProgress(members, owners, environment)
        self._handler_times = HandlerTimes(members, owners, environment, lambda: limit_ms() > 0)
        owners.on_given = self._given
        self._drains: dict[Key, Drain] = {}
        self._held = HeldQuestions(environment.later)
        self._of: dict[OwnedQueue, Drain] = {}
        self._rests: dict[str, Timer] = {}  # groups that were drained a short time ago
        self._late: set[str] = set()  # groups that have changed since they were told
        self._told: dict[str, dict[str, None]] = {}  # each group's clients when it was told
        self._missed = Counter[str]()  # how often in a row a group did not finish in time
        self._slow: dict[str, int] = {}  # groups that did not twice: until when
        self._news: dict[str, Timer] = {}  # groups whose members may yet learn of a queue count

    def __len__(self) -> int:
        tables: tuple[Sized, ...] = (
            *(self._drains, self._held, self._of, self._rests),
            *(self._late, self._told, self._missed, self._slow, self._news, self._lite_pulls),
            self._handler_times,
        )
        return sum(len(table) for table in tables)

    def __call__(self, group: str, connections: list[Connection]) -> None:
        """A group has changed: tell its members, at once or when they have finished."""
        drain = self._drains.get((group, None))
        if drain is not None and not drain.told:
            return  # they will hear of this change, too
        if drain is not None or group in self._rests:
            self._late.add(group)
        elif self._begin(group, None) is None:
            self._announce(group, connections)

    def expect_news(self, group: str) -> None:
        """A topic of a group has another number of queues: its members learn of it one by one."""
        self._no_news(group)
        self._news[group] = self._later(NEWS_MS / 1000, lambda: self._no_news(group))

    def joined(self, connection: Connection, group: str) -> None:
        """A group has a member more: see for how long its handlers are at work."""
        self._handler_times.joined(connection, group)

    def gone(self, group: str) -> None:
        """Nobody is left in a group."""
        self._no_news(group)
        self._handler_times.gone(group)
        self._late.discard(group)
        self._told.pop(group, None)
        self._missed.pop(group, None)
        self._slow.pop(group, None)

    def pulled(self, queue: OwnedQueue, *, finished: bool) -> bool:
        """The owner of a draining queue has pulled; `finished` if nothing is under way.

        Return whether it may read: others take longer.
        """
        queue.signs.none()  # or it would not be pulled any more
        drain = self._of.get(queue)
        if drain is None or drain.told or not finished:
            return False
        goes_on = drain.finished(queue, self._clock_ms())
        if not drain.left:
            self._tell(drain)
        return goes_on

    def has_finished(self, queue: OwnedQueue) -> bool:
        """Whether a queue's owner has consumed what it fetched, and fetches nothing more."""
        drain = self._of.get(queue)
        return queue.draining and drain is not None and queue not in drain.left

    def put_on_hold(self, connection: Connection, group: str, answer: Answer) -> bool:
        """Whether who asks for a group's members has to wait; `answer` is called when it has."""
        drain = self._drains.get((group, None))
        if group in self._late or (drain is not None and not drain.told):
            return self._held.hold((group, None), answer)
        drain = self._drains.get((group, connection))
        if drain is None and group in self._news and not self._is_sharing(connection, group):
            drain = self._begin(group, connection)
        return drain is not None and not drain.told and self._held.hold((group, connection), answer)

    def members_before(self, connection: Connection, group_name: str) -> list[str] | None:
        """Return the clients with which a member keeps the queues that it has, as long as others
        finish: those that the group was last told of. None where these are not all who own queues.

        One that is new does not find itself there, and takes nothing until it is told.
        """
        group = self._members.group(group_name)
        if group is None:
            return None
        told = self._told.get(group_name, {})
        near = group.members.keys() & self._owners.of.keys()  # few, where thousands ask at a time
        ids = {each: group.members[each].client.client_id for each in near}
        others = (each for each, client_id in ids.items() if client_id not in told)
        if not self._has_owner(group_name, others) and self._has_owner(group_name, near):
            return list(told)
        asker = group.members[connection].client.client_id if connection in group.members else ""
        same = (each for each, client_id in ids.items() if client_id == asker)
        if self._has_owner(group_name, same):
            return None
        return [each for each in group.client_ids() if each != asker]

    def _has_owner(self, group: str, connections: Iterable[Connection]) -> bool:
        """Whether some of the members have queues: all of a group ask that, each for itself."""
        return any(self._owners.owned_by(each, group) for each in connections)

    def _is_sharing(self, connection: Connection, group: str) -> bool:
        """Whether a member that has finished asks on, topic by topic: its queues rest already."""
        return any(queue.draining for queue in self._owners.owned_by(connection, group))

    def asked_members(self, connection: Connection, group: str) -> None:
        """A member begins to share queues anew: soon it knows which ones it keeps."""
        for drain in (self._drains.get((group, None)), self._drains.get((group, connection))):
            if drain is not None and drain.told:
                drain.asked[connection] += 1
                self._settle(connection, drain)

    def _begin(self, group: str, alone: Connection | None) -> Drain | None:
        """Let the queues of members rest until those have finished; None where there are none."""
        queues = self._foreign(group, alone) if self._limit_ms() else []
        if not queues:
            return None
        drain = Drain(group, alone, self._clock_ms(), queues, dict.fromkeys(queues))
        self._drains[group, alone] = drain
        for queue in queues:
            queue.rest()
            self._of[queue] = drain
            assert queue.owner is not None
            self._owners.link(queue, queue.owner.connection)
        self._poll(drain)
        return drain

    def _given(self, queue: OwnedQueue) -> None:
        """A member has a queue that it did not have when its group began to rest."""
        drain = self._drains.get((queue.key.group, None))
        owner = queue.owner
        if drain is None or drain.told or owner is None or owner.timeout_ms is not None:
            return
        queue.rest()
        self._of[queue] = drain
        drain.later.append(queue)
        self._owners.link(queue, owner.connection)

    def _foreign(self, group_name: str, alone: Connection | None) -> list[OwnedQueue]:
        """Return the queues of members whose pulls say how far they are, and who keep them."""
        group = self._members.group(group_name)
        return [
            queue
            for connection, member in (group.members.items() if group is not None else ())
            if member.handover_timeout_ms is None and alone in (None, connection)
            for queue in self._owners.owned_by(connection, group_name)
            if not queue.leaving
        ]

    def _poll(self, drain: Drain) -> None:
        """Have the owners pull again, which shows how far they are; end when the time is up."""
        now_ms = self._clock_ms()
        waited_ms = now_ms - drain.began_ms
        dropped = waited_ms >= DROPPED_MS

        def is_at_work(queue: OwnedQueue) -> bool:
            gone = dropped and queue.signs.for_good
            return queue.draining and not queue.unseen and not gone

        drain.keep(is_at_work, now_ms)
        limit_ms = self._limit_of(drain, now_ms)
        if not drain.left or waited_ms >= limit_ms:
            self._tell(drain)
            return
        quickly = waited_ms < POLL_QUICKLY_MS
        pause_ms = POLL_MS if quickly else POLL_SLOWLY_MS
        drain.timer = self._later(pause_ms / 1000, lambda: self._poll(drain))
        group = self._members.group(drain.group)
        if group is not None and group.consume_type == CONSUME_ACTIVELY:
            self._ask_how_far(drain)
            return
        if limit_ms - waited_ms < QUICK_MS:
            drain.stop_others(now_ms)
        elif not quickly and drain.went_on_ms is None:
            drain.let_others_go_on(now_ms)
        for queue in list(drain.left):
            if (owner := queue.owner) is not None:
                if self._environment.holds_pull(owner.connection, queue.key):
                    owner.is_to_pull(now_ms)
                self._environment.end_pulls(owner.connection, queue.key)

    def _ask_how_far(self, drain: Drain) -> None:
        """Have lite pull consumers say it: their pulls do not."""
        by_owner: dict[Connection, list[OwnedQueue]] = {}
        for queue in drain.left:
            if queue.owner is not None:
                by_owner.setdefault(queue.owner.connection, []).append(queue)
        for connection, queues in by_owner.items():
            self._lite_pulls.look(connection, queues, self._handed_out_all)

    def _handed_out_all(self, queue: OwnedQueue) -> None:
        self.pulled(queue, finished=True)

    def _limit_of(self, drain: Drain, now_ms: int) -> int:
        """Return for how long a group, or one alone, may finish, as far as is known by now."""
        limit_ms = self._limit_ms()
        if drain.alone is not None:
            return min(limit_ms, ALONE_MS)
        slow = self._slow.get(drain.group, 0) > drain.began_ms
        if not slow and not drain.in_vain:
            self._look_at_work(drain, limit_ms * LONG_SHARE)
        if slow or drain.in_vain:
            return min(limit_ms, QUICK_MS)
        if drain.quick and drain.ends_within(limit_ms * QUICK_TIMES, now_ms):
            return limit_ms * QUICK_TIMES
        return limit_ms

    def _look_at_work(self, drain: Drain, long_ms: float) -> None:
        """See for how long handlers are at work, and how much is left for them."""
        drain.quick, work = True, 0
        owners: set[Connection] = set()
        for queue in drain.unfinished:
            if queue.owner is None:
                continue
            connection = queue.owner.connection
            if not self._handler_times.is_known(connection, drain.group):
                drain.quick = False
                continue
            if connection not in owners:
                owners.add(connection)
                self._handler_times.look(connection, drain.group)
                work += self._handler_times.unfinished(connection, drain.group)
                still_ms = self._handler_times.still_ms(connection, drain.group)
                drain.quick = drain.quick and still_ms is not None and still_ms < long_ms
            if queue.owner.pulled_ms < drain.began_ms:
                continue  # what it has finished since is not known
            at_work_ms = self._handler_times.longest_ms(queue.owner, queue.key)
            if at_work_ms is not None and at_work_ms >= long_ms:
                log.info("handlers_take_long group=%s at_work_ms=%d", drain.group, at_work_ms)
                drain.in_vain, drain.quick = True, False
                return
        drain.note_work(work)

    def _tell(self, drain: Drain) -> None:
        """Tell the members that their group has changed; wait until they know what they keep."""
        if drain.timer is not None:
            drain.timer.cancel()
        drain.told = True
        if drain.left:
            log.info("not_finished group=%s queues=%d", drain.group, len(drain.left))
        group = self._members.group(drain.group)
        judged = drain.alone is None and self._slow.get(drain.group, 0) <= drain.began_ms
        if judged and group is not None:  # or nobody would ever forget it
            self._note_slowness(drain)
        settle_ms = SETTLE_MS_MAX if group is not None else 0
        drain.timer = self._later(settle_ms / 1000, lambda: self._over(drain))  # whatever follows
        if group is not None and drain.alone is None:
            self._announce(drain.group, list(group.members))
        self._held.answer_all(drain.key)

    def _announce(self, group: str, connections: list[Connection]) -> None:
        self._told[group] = dict.fromkeys(self._members.client_ids(group))
        self._environment.notify(group, connections)

    def _note_slowness(self, drain: Drain) -> None:
        """Wait no longer for a group that did not finish twice in a row: once is chance.

        One that has too much to do is not too slow.
        """
        if not drain.left or drain.quick:
            self._missed.pop(drain.group, None)
            return
        self._missed[drain.group] += 1
        if self._missed[drain.group] == MISSES_MAX:
            del self._missed[drain.group]
            self._slow[drain.group] = self._clock_ms() + SLOW_MS

    def _settle(self, connection: Connection, drain: Drain) -> None:
        """Let a member pull again what it kept, unless it asks on or waits for what it gained."""
        asked = drain.asked[connection]

        def settled() -> None:
            if drain.asked[connection] != asked:
                return
            if self._owners.asks.get(connection):
                self._settle(connection, drain)
                return
            kept = [queue for queue in drain.resting if self._rests_for(queue, drain)]
            self._resume([queue for queue in kept if queue.is_owned_by(connection)])
            if not any(queue.draining for queue in kept):
                self._over(drain)

        self._later(SETTLE_MS / 1000, settled)

    def _rests_for(self, queue: OwnedQueue, drain: Drain) -> bool:
        return queue.draining and self._of.get(queue) is drain

    def _over(self, drain: Drain) -> None:
        if self._drains.get(drain.key) is not drain:
            return
        del self._drains[drain.key]
        if drain.timer is not None:
            drain.timer.cancel()
        rested = [queue for queue in drain.resting if self._rests_for(queue, drain)]
        for queue in drain.resting:
            if self._of.get(queue) is drain:
                del self._of[queue]
        if drain.alone is None and self._members.group(drain.group) is not None:
            longest_ms = QUICK_TIMES * self._limit_ms() + SETTLE_MS_MAX  # or it stood still
            rest_s = min(drain.rested_ms(self._clock_ms()), longest_ms) / 1000
            self._rests[drain.group] = self._later(rest_s, lambda: self._rested(drain.group))
        self._resume(rested)

    def _rested(self, group_name: str) -> None:
        """Tell a group of what has changed meanwhile."""
        del self._rests[group_name]
        if group_name in self._late:
            self._late.discard(group_name)
            group = self._members.group(group_name)
            if group is not None:
                self(group_name, list(group.members))

    def _no_news(self, group: str) -> None:
        timer = self._news.pop(group, None)
        if timer is not None:
            timer.cancel()

    def _resume(self, queues: list[OwnedQueue]) -> None:
        for queue in queues:
            queue.go_on()  # of all, before anybody is served who might fail
        for queue in queues:
            if queue.owner is not None:
                self._owners.link(queue, queue.owner.connection)
                self._environment.wake_pulls(queue.key)
