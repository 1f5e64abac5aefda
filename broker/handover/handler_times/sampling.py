"""Looks at what members fetch and finish, and asks those that lag what they hold."""

from collections.abc import Callable, Iterator
from typing import Final

from aerobee.broker.handover.environment import Environment, Holdings
from aerobee.broker.handover.handler_times.history import History, Seen
from aerobee.broker.handover.owned_queue import Holder, OwnedQueue, Timer
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.broker.members.subscriptions import ALL, is_tag_type
from aerobee.remoting.command import Language
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import CONSUME_PASSIVELY

LOOK_MS: Final = 250  # between two looks at a member
LAG_MS: Final = 500  # since the oldest unfinished message was fetched, of who is asked
ASK_MS: Final = 1_000  # between two questions to a member
SILENT_MS: Final = 30_000  # until a member is asked again that did not say
ASKS_MAX: Final = 10  # in LOOK_MS, of all members
LOOKS_MAX: Final = 500  # at queues in one go; where there are more, members are seen less often

Key = tuple[str, Connection]
"""A group and one of its members."""


class HandlerTimes:
    """The histories of all members whose pulls tell how far they are and whose pool is known.

    That is push consumers of Java's. Looking costs at most LOOKS_MAX queues and ASKS_MAX questions
    in LOOK_MS, and nothing while no such member is there; where there are more, less is known.
    `enabled` is false where nobody is waited for (handoverDrainMillis=0).
    """

    def __init__(
        self,
        members: Members,
        owners: QueueOwners,
        environment: Environment,
        enabled: Callable[[], bool],
    ) -> None:
        self._members = members
        self._owners = owners
        self._environment = environment
        self._clock_ms = environment.clock_ms
        self._later = environment.later
        self._enabled = enabled
        self._histories: dict[str, dict[Connection, History]] = {}
        self._timer: Timer | None = None
        self._asks_left = ASKS_MAX
        self._round: Iterator[Key] = iter(())
        self._due: dict[Key, History] = {}  # members to be asked, who has waited longest first

    def __len__(self) -> int:
        return len(self._histories)

    def joined(self, connection: Connection, group: str) -> None:
        """A group has a member more: look at it from now on."""
        if self.is_known(connection, group):
            self._histories.setdefault(group, {})
            if self._timer is None:
                self._timer = self._later(LOOK_MS / 1000, self._look_on)

    def gone(self, group: str) -> None:
        """A group has no members any more."""
        self._histories.pop(group, None)
        if not self._histories and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._due.clear()

    def is_known(self, connection: Connection, group_name: str) -> bool:
        """Whether a member is one whose work can be seen."""
        group = self._members.group(group_name)
        member = group.members.get(connection) if group is not None else None
        return (
            group is not None
            and member is not None
            and group.consume_type == CONSUME_PASSIVELY
            and member.handover_timeout_ms is None
            and member.client.language == Language.JAVA
        )

    def look(self, connection: Connection, group: str) -> int:
        """Note how far a member is; return how many queues it has."""
        queues = self._owners.owned_by(connection, group)
        history = self._histories.setdefault(group, {}).setdefault(connection, History())
        seen = {}
        for queue in queues:
            state = None if queue.unseen else self._seen(queue)
            if state is not None:
                seen[queue.key] = state
        now_ms = self._clock_ms()
        history.look(seen, now_ms)
        if self._may_be_asked(history, now_ms):
            self._due.setdefault((group, connection), history)
            self._ask_some(now_ms)
        return len(queues)

    def _may_be_asked(self, history: History, now_ms: int) -> bool:
        """Whether a member lags, and was not asked a moment ago."""
        asked_ms = history.asked_ms
        may = asked_ms is None or now_ms - asked_ms >= ASK_MS
        return may and history.lags_ms(now_ms) >= LAG_MS

    def _ask_some(self, now_ms: int) -> None:
        """Ask those that have waited longest for it, or the first ones would use up all asks."""
        while self._due and self._asks_left > 0:
            group, connection = key = next(iter(self._due))
            history = self._due.pop(key)
            known = self._histories.get(group, {}).get(connection) is history
            if known and self._may_be_asked(history, now_ms):
                self._asks_left -= 1
                self._ask(connection, group, history, now_ms)

    def _ask(self, connection: Connection, group: str, history: History, now_ms: int) -> None:
        """Have a member say what it holds."""
        history.asked_ms = now_ms

        def answered(holdings: Holdings | None) -> None:
            if holdings is None:
                history.asked_ms = now_ms + SILENT_MS - ASK_MS
            elif holdings.held <= holdings.threads:
                history.all_at_work(now_ms, self._clock_ms())

        self._environment.ask_holdings(connection, group, answered)

    def longest_ms(self, owner: Holder, key: GroupQueue) -> int | None:
        """Return for how long at least the oldest unfinished message of a queue had been at work
        when its owner sent its latest pull; None where that is not known."""
        history = self._histories.get(key.group, {}).get(owner.connection)
        return None if history is None else history.at_work_ms(key, owner.shown_ms)

    def unfinished(self, connection: Connection, group: str) -> int:
        """Return how many messages of a member are unfinished, at most."""
        history = self._histories.get(group, {}).get(connection)
        return 0 if history is None else history.unfinished

    def still_ms(self, connection: Connection, group: str) -> int | None:
        """Return for how long a member has finished nothing; None where that is not known."""
        history = self._histories.get(group, {}).get(connection)
        if history is None or history.moved_ms is None:
            return None
        return self._clock_ms() - history.moved_ms

    def _seen(self, queue: OwnedQueue) -> Seen | None:
        key, owner = queue.key, queue.owner
        fetched, done = self._environment.fetched(key), self._environment.committed(key)
        if owner is None or fetched is None or done is None:
            return None
        if self._environment.locked_by(key) == owner.client_id:
            return None  # in order: its messages wait for each other, not for a thread
        return Seen(fetched, done, self._wants_all(key))

    def _wants_all(self, key: GroupQueue) -> bool:
        wanted = self._members.subscription(key.group, key.topic)
        return (
            wanted is not None
            and is_tag_type(wanted.expression_type)
            and (wanted.sub_string or ALL) == ALL
        )

    def _look_on(self) -> None:
        """Look at the members whose turn it is."""
        self._timer = self._later(LOOK_MS / 1000, self._look_on)
        if not self._enabled():
            self._due.clear()
            return
        self._asks_left = ASKS_MAX
        self._ask_some(self._clock_ms())
        looks = 0
        for group, connection in self._round:
            if self.is_known(connection, group):
                looks += 1 + self.look(connection, group)
            else:
                looks += 1
                self._histories.get(group, {}).pop(connection, None)
            if looks >= LOOKS_MAX:
                return
        self._round = iter(self._all())

    def _all(self) -> list[Key]:
        """Return every member, and those that are none any more."""
        keys: dict[Key, None] = {}
        for name, histories in self._histories.items():
            group = self._members.group(name)
            for connection in (*histories, *(group.members if group is not None else ())):
                keys[name, connection] = None
        return list(keys)
