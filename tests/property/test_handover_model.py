"""Hand-overs under any order of joins, departures, deaths, asks, commits and pulls."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.examples import examples
from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment
from support.stand_ins.virtual_time import VirtualTime

from aerobee.broker.handover.draining import POLL_SLOWLY_MS, SETTLE_MS_MAX
from aerobee.broker.handover.environment import HandoverLimits, Holdings
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.held_questions import HELD_MS
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import Client, GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.net.connection import Connection

WAIT_MS = 2000
DRAIN_MS = 500
TIMEOUT_MS = 7000
CLIENTS = 4  # the latter half are ours
NUMBERS = st.integers(min_value=0, max_value=CLIENTS - 1)
QUEUES = st.sampled_from([GroupQueue("g", "t", 0), GroupQueue("g", "t", 1)])
PATIENCE_MS = 30_000  # in which a member that pulls alone must come to read


@dataclass(eq=False)
class Asked:
    """One request for an offset, as its sender sees it."""

    connection: FakeConnection
    key: GroupQueue
    came_ms: int
    verdict: Verdict | None = None


class FakeSurroundings(QuietEnvironment):
    """Offsets and waiting pulls in tables; of pulls, whether a former owner's."""

    def __init__(self, time: VirtualTime, told: Callable[[], None]) -> None:
        super().__init__(time)
        self._told = told
        self.offsets: dict[GroupQueue, int] = {}
        self.locks: dict[GroupQueue, str] = {}
        self.pulls: dict[tuple[Connection, GroupQueue], bool] = {}
        self.read: set[tuple[Connection, GroupQueue]] = set()
        self.handovers: Handovers

    def notify(self, group: str, members: list[Connection]) -> None:
        """Members hear that their group has changed."""
        self._told()

    def committed(self, key: GroupQueue) -> int | None:
        """Return the committed offset."""
        return self.offsets.get(key)

    def fetched(self, key: GroupQueue) -> int | None:
        """Members have finished what they fetched."""
        return self.offsets.get(key)

    def locked_by(self, key: GroupQueue) -> str | None:
        """Return who has locked the queue."""
        return self.locks.get(key)

    def tell(self, connection: Connection, key: GroupQueue) -> None:
        """Owners of queues are alive."""
        assert not connection.closed

    def wake_pulls(self, key: GroupQueue) -> None:
        """Let those read that may."""
        for connection, other in list(self.pulls):
            if other == key and self.handovers.may_pull(connection, key):
                if self.pulls.pop((connection, key)):
                    self.goes_on_where_others_stopped(connection, key)
                self.read.add((connection, key))

    def goes_on_where_others_stopped(self, connection: Connection, key: GroupQueue) -> None:
        """Who reads again after others did is sent to what is committed, once."""
        assert self.handovers.goes_on_at(connection, key, 0) == self.offsets.get(key)
        assert self.handovers.goes_on_at(connection, key, 0) is None

    def end_pulls(self, connection: Connection, key: GroupQueue) -> None:
        """Answer the waiting pull with nothing."""
        self.pulls.pop((connection, key), None)

    def holds_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether a pull waits."""
        return (connection, key) in self.pulls

    def pulls_at(self, connection: Connection, key: GroupQueue) -> int | None:
        """Lite pull is not tried here."""
        raise AssertionError("a push consumer's pulls say how far it is")

    def commit(self, key: GroupQueue, offset: int) -> None:
        """Likewise."""
        raise AssertionError("a push consumer commits for itself")

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Likewise."""
        raise AssertionError("a push consumer is not asked")


class HandoverMachine(RuleBasedStateMachine):
    """Four clients in one group; `given` are those who got a queue and have not released it."""

    def __init__(self) -> None:
        super().__init__()
        self.time = VirtualTime()
        self.environment = FakeSurroundings(self.time, self.told)
        self.members = Members(
            lambda group, told: self.handovers.notify(group, told), self.time.clock_ms
        )
        self.untold_since_ms: int | None = None
        self.handovers = self.environment.handovers = Handovers(
            self.members,
            self.environment,
            HandoverLimits(lambda: WAIT_MS, lambda: DRAIN_MS, 100),
        )
        self.members.watchers.append(self.handovers)
        self.lives = [0] * CLIENTS
        self.connections = [self.connect(number) for number in range(CLIENTS)]
        self.versions = [1] * CLIENTS
        self.asked: list[Asked] = []
        self.given: dict[GroupQueue, set[Connection]] = {}

    def told(self) -> None:
        """Members hear that their group has changed."""
        self.untold_since_ms = None

    def connect(self, number: int) -> FakeConnection:
        """Return the connection of a client's next life."""
        self.lives[number] += 1
        return FakeConnection(f"10.0.0.{number}:{self.lives[number]}")

    def is_member(self, number: int) -> bool:
        """Whether a client is in the group."""
        group = self.members.group("g")
        return group is not None and self.connections[number] in group.members

    def answered(self, asked: Asked, verdict: Verdict) -> None:
        """Take an answer: ours may be told to wait, others never."""
        if asked.connection.closed:
            return  # nobody reads it
        asked.verdict = verdict
        self.asked.remove(asked)
        number = self.connections.index(asked.connection)
        assert verdict is Verdict.OFFSET or number >= CLIENTS // 2
        owner = self.handovers.owner(asked.key)
        if verdict is Verdict.OFFSET and owner is not None:
            if owner.connection is asked.connection:
                self.given.setdefault(asked.key, set()).add(asked.connection)
                if (asked.connection, asked.key) in self.environment.pulls:
                    self.environment.pulls[asked.connection, asked.key] = (
                        False  # it knows the offset
                    )
            else:
                assert not self.is_member(number), "a member got an offset and not the queue"

    @initialize(number=NUMBERS, other=NUMBERS)
    def begin(self, number: int, other: int) -> None:
        """Everybody joins, and two of them own a queue each."""
        for client in range(CLIENTS):
            self.beat(client, newer=False)
        self.ask(number, GroupQueue("g", "t", 0))
        self.ask(other, GroupQueue("g", "t", 1))

    @rule(number=NUMBERS, newer=st.booleans())
    def beat(self, number: int, newer: bool) -> None:
        """Join, stay, or tell that the queues have changed."""
        self.versions[number] += newer
        data = ConsumerData(
            group_name="g",
            subscription_data_set=[SubscriptionData(topic="t", sub_version=self.versions[number])],
            handover_timeout_millis=TIMEOUT_MS if number >= CLIENTS // 2 else None,
        )
        client = Client(self.connections[number], f"c{number}", 0, 513)
        self.members.register_consumer(client, data, notified=True)

    @rule(number=NUMBERS)
    def leave(self, number: int) -> None:
        """Leave the group and stay connected."""
        if self.is_member(number):
            self.untold_since_ms = self.time.now_ms
        self.members.unregister_consumer(self.connections[number], "g")
        if self.members.group("g") is None:
            self.untold_since_ms = None  # nobody is left to hear of it

    @rule(number=NUMBERS)
    def die(self, number: int) -> None:
        """The connection ends; the client comes back with another one, which is no member."""
        connection = self.connections[number]
        connection.closed = True
        self.asked = [asked for asked in self.asked if asked.connection is not connection]
        self.members.closed(connection)
        self.handovers.closed(connection)
        for held in [held for held in self.environment.pulls if held[0] is connection]:
            del self.environment.pulls[held]
        for owners in self.given.values():
            owners.discard(connection)
        if self.members.group("g") is None:
            self.untold_since_ms = None  # nobody is left to hear of anything
        self.connections[number] = self.connect(number)

    @rule(number=NUMBERS, key=QUEUES)
    def ask(self, number: int, key: GroupQueue) -> None:
        """Ask for the offset, one at a time for each queue."""
        connection = self.connections[number]
        assume(not any(a.connection is connection and a.key == key for a in self.asked))
        asked = Asked(connection, key, self.time.now_ms)
        self.asked.append(asked)
        verdict = self.handovers.ask(connection, key, lambda late: self.answered(asked, late))
        if verdict is not None:
            self.answered(asked, verdict)

    @rule(number=NUMBERS)
    def ask_members(self, number: int) -> None:
        """Begin to rebalance, at the latest when all have had their time to finish."""
        connection, since_ms = self.connections[number], self.time.now_ms

        def answered(clients: list[str] | None) -> None:
            assert self.time.now_ms - since_ms <= HELD_MS
            assert clients is None or len(clients) == len(set(clients))  # in whatever order

        self.handovers.ask_members(connection, "g", answered)

    @rule(number=NUMBERS, key=QUEUES)
    def commit(self, number: int, key: GroupQueue) -> None:
        """Of those who got the queue, the owner's commit counts and nobody else's."""
        connection = self.connections[number]
        owner = self.handovers.owner(key)
        offset = self.environment.offsets.get(key, 0) + 1
        taken = self.handovers.takes_commit(connection, key, offset)
        if connection in self.given.get(key, ()):
            assert taken is (owner is not None and owner.connection is connection)
        if taken:
            self.environment.offsets[key] = offset
            self.handovers.committed(connection, key)

    @rule(number=NUMBERS, key=QUEUES)
    def unlock(self, number: int, key: GroupQueue) -> None:
        """Give a queue up, or a claim to it."""
        connection = self.connections[number]
        self.handovers.release(connection, [key])
        self.given.get(key, set()).discard(connection)

    @rule(number=NUMBERS, key=QUEUES, finished=st.booleans())
    def pull(self, number: int, key: GroupQueue, finished: bool) -> None:
        """Pull; the pull waits where it may not read."""
        self.reads(number, key, finished)

    def reads(self, number: int, key: GroupQueue, finished: bool = False) -> bool:
        """Pull unless a pull waits already; return whether it may read."""
        connection = self.connections[number]
        if (connection, key) in self.environment.pulls:
            return (connection, key) in self.environment.read
        former = connection in self.given.get(key, ()) and not self.owns(connection, key)
        if self.handovers.begin_pull(connection, key, finished=finished):
            if former:
                self.environment.goes_on_where_others_stopped(connection, key)
            if self.owns(connection, key):
                self.given.setdefault(key, set()).add(connection)
            return True
        self.environment.pulls[connection, key] = former
        return False

    def owns(self, connection: FakeConnection, key: GroupQueue) -> bool:
        """Whether this connection owns the queue."""
        owner = self.handovers.owner(key)
        return owner is not None and owner.connection is connection

    @rule(number=NUMBERS, other=NUMBERS, key=QUEUES, waits=st.booleans())
    def lose_and_return(self, number: int, other: int, key: GroupQueue, waits: bool) -> None:
        """Somebody else has a queue for a while that its owner goes on pulling, and does some."""
        assume(number != other and self.is_member(other))
        assume(self.owns(self.connections[number], key))
        for _ in range(2 * TIMEOUT_MS // 500):
            if self.owns(self.connections[other], key):
                break
            if not any(a.connection is self.connections[other] for a in self.asked):
                self.ask(other, key)
            self.wait(500)
        if waits:
            self.reads(number, key)
        self.commit(other, key)
        self.unlock(other, key)
        if not waits:
            self.reads(number, key)

    @rule(ms=st.sampled_from([1, 300, 700, 2500, 9000, 40_000]))
    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.time.advance(ms)

    @precondition(lambda self: self.given)
    @rule(number=NUMBERS, key=QUEUES)
    def is_not_starved(self, number: int, key: GroupQueue) -> None:
        """A member that pulls reads, once nobody else pulls or asks."""
        assume(self.is_member(number) and self.connections[number] in self.given.get(key, ()))
        connection = self.connections[number]
        self.environment.pulls.clear()
        for _ in range(PATIENCE_MS // 500):
            self.environment.read.clear()
            if self.reads(number, key):
                return
            self.time.advance(500)
            if (connection, key) in self.environment.read:
                return
        raise AssertionError(f"{connection.remote} pulls {key} in vain")

    @invariant()
    def every_ask_is_answered_in_time(self) -> None:
        """Nobody waits longer than a Go client does."""
        assert all(self.time.now_ms - asked.came_ms < WAIT_MS for asked in self.asked)

    @invariant()
    def members_hear_of_changes_in_time(self) -> None:
        """However long the others take to finish, and to have finished for the change before."""
        since_ms, drain_ms = self.untold_since_ms, DRAIN_MS + POLL_SLOWLY_MS
        limit_ms = 2 * (drain_ms + SETTLE_MS_MAX) + drain_ms
        assert since_ms is None or self.time.now_ms - since_ms <= limit_ms

    @invariant()
    def nobody_owns_from_the_grave(self) -> None:
        """Owners are connected."""
        for key in (GroupQueue("g", "t", 0), GroupQueue("g", "t", 1)):
            owner = self.handovers.owner(key)
            assert owner is None or not owner.connection.closed

    def teardown(self) -> None:
        """When everybody has gone, soon nothing is left of them, and nothing is to come."""
        for number in range(CLIENTS):
            self.die(number)
        self.time.advance(5000)
        assert self.handovers.is_empty and not self.time.pending


TestHandovers = HandoverMachine.TestCase
TestHandovers.settings = settings(max_examples=examples(50), stateful_step_count=60, deadline=None)
