"""A group whose members work, in virtual time: what they have fetched and finished."""

from collections.abc import Callable

from aerobee.broker.handover.draining import QUICK_TIMES
from aerobee.broker.handover.environment import HandoverLimits, Holdings
from aerobee.broker.handover.handler_times.sampling import LOOK_MS
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import Client, GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import (
    ConsumerData,
    SubscriptionData,
)
from aerobee.remoting.command import Language
from aerobee.remoting.net.connection import Connection
from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment
from support.stand_ins.virtual_time import VirtualTime

LIMIT_MS = 6_000
TOLD_WITHIN_MS = 200
KEY = GroupQueue("g", "t", 0)
OTHER = GroupQueue("g", "t", 1)


class Working(QuietEnvironment):
    """What a Java consumer has fetched and done; its pulls come back as soon as they end."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.time)
        self._world = world
        self.fetched_before: dict[GroupQueue, int] = {}
        self.done_before: dict[GroupQueue, int] = {}
        self.threads: int | None = 20  # None: it does not answer
        self.asked = 0
        self.heard: set[Connection] = set()  # who was asked
        self.pull_takes_ms = 1
        self.under_way: set[tuple[Connection, GroupQueue]] = set()

    def notify(self, group: str, members: list[Connection]) -> None:
        """Note when."""
        self._world.told_ms.append(self.time.now_ms)

    def committed(self, key: GroupQueue) -> int | None:
        """Return how far it is."""
        return self.done_before.get(key)

    def fetched(self, key: GroupQueue) -> int | None:
        """Return how far it has read."""
        return self.fetched_before.get(key)

    def holds_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """A pull waits unless one is on its way."""
        return (connection, key) not in self.under_way

    def end_pulls(self, connection: Connection, key: GroupQueue) -> None:
        """Its next pull comes a millisecond later, or as long as it takes."""

        def comes() -> None:
            self.under_way.remove((connection, key))
            self._world.pull(connection, key)

        if self.holds_pull(connection, key):
            self.under_way.add((connection, key))
            self._world.time.later(self.pull_takes_ms / 1000, comes)

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Say what it holds."""
        self.asked += 1
        self.heard.add(connection)
        if self.threads is None:
            answered(None)
            return
        held = sum(self.fetched_before[key] - self.done_before[key] for key in self.fetched_before)
        answered(Holdings(False, 0, {}, held=held, threads=self.threads))


class World:
    """A group of one member that owns a queue; others come, and own none."""

    def __init__(self, *, language: int = Language.JAVA, wanted: str = "*") -> None:
        self.time = VirtualTime()
        self.language, self.wanted = language, wanted
        self.limit_ms = LIMIT_MS
        self.told_ms: list[int] = []
        self.count = 0
        self.environment = Working(self)
        self.members = Members(
            lambda group, told: self.handovers.notify(group, told), self.time.clock_ms
        )
        self.handovers = Handovers(
            self.members,
            self.environment,
            HandoverLimits(lambda: 2_000, lambda: self.limit_ms, 10_000),
        )
        self.members.watchers.append(self.handovers)
        self.first = self.join()
        self.take(KEY)

    def join(self) -> FakeConnection:
        """Let one more member join."""
        self.count += 1
        connection = FakeConnection(f"10.0.0.1:{self.count}")
        wish = SubscriptionData(topic="t", sub_string=self.wanted, sub_version=1)
        data = ConsumerData(group_name="g", subscription_data_set=[wish])
        client = Client(connection, f"c{self.count}", self.language, 513)
        self.members.register_consumer(client, data, notified=True)
        return connection

    def take(self, key: GroupQueue) -> None:
        """The first member begins with a queue, of which it has consumed one message."""
        assert self.handovers.ask(self.first, key, lambda verdict: None) is Verdict.OFFSET
        self.environment.fetched_before[key] = self.environment.done_before[key] = 1
        self.pull(self.first, key)
        self.time.advance(3 * LOOK_MS)

    def pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Pull at what was fetched, and commit what is done."""
        fetched, done = self.environment.fetched_before[key], self.environment.done_before[key]
        return self.handovers.begin_pull(connection, key, fetched, finished=done >= fetched)

    def work_off(self, per_second: int) -> None:
        """Finish so many messages a second from now on, as long as there are some."""
        environment = self.environment

        def step() -> None:
            done = environment.done_before[KEY] + max(1, per_second // 100)
            environment.done_before[KEY] = min(done, environment.fetched_before[KEY])
            self.work_off(per_second)

        self.time.later(0.01 if per_second >= 100 else 1 / per_second, step)

    def told_after(self) -> int:
        """Let somebody join, and return how long it takes until the members hear of it, in ms."""
        joined_ms, told = self.time.now_ms, len(self.told_ms)
        self.join()
        self.time.advance((QUICK_TIMES + 1) * LIMIT_MS)
        assert len(self.told_ms) == told + 1
        return self.told_ms[-1] - joined_ms
