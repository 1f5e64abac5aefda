"""How long members that are not ours may take to finish, on a clock of its own."""

import time
from contextlib import suppress

import pytest
from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment
from support.stand_ins.virtual_time import VirtualTime

from aerobee.broker.handover.draining import MISSES_MAX, QUICK_MS, SLOW_MS
from aerobee.broker.handover.environment import HandoverLimits
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.held_questions import HELD_MS, HeldQuestions
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import Client, GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.net.connection import Connection

LIMIT_MS = 6_000
KEY = GroupQueue("g", "t", 0)


class Told(QuietEnvironment):
    """A broker that notes when a group is told."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.time)
        self._world = world

    def notify(self, group: str, members: list[Connection]) -> None:
        """Note when."""
        self._world.told_ms = self.time.now_ms


class World:
    """A group whose first member never finishes; `told_ms` is when its members were told last."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.told_ms = 0
        self.count = 0
        self.members = Members(
            lambda group, told: self.handovers.notify(group, told), self.time.clock_ms
        )
        self.handovers = Handovers(
            self.members, Told(self), HandoverLimits(lambda: 2_000, lambda: LIMIT_MS, 10)
        )
        self.members.watchers.append(self.handovers)

    def join(self) -> FakeConnection:
        """Let one more member join."""
        self.count += 1
        connection = FakeConnection(f"10.0.0.1:{self.count}")
        data = ConsumerData(
            group_name="g", subscription_data_set=[SubscriptionData(topic="t", sub_version=1)]
        )
        client = Client(connection, f"c{self.count}", 0, 513)
        self.members.register_consumer(client, data, notified=True)
        return connection

    def told_after(self) -> int:
        """Let somebody join, and return how long it takes until the members hear of it, in ms."""
        joined_ms = self.time.now_ms
        self.join()
        self.time.advance(2 * LIMIT_MS)
        return self.told_ms - joined_ms


def test_a_group_that_leaves_before_it_has_finished_is_forgotten() -> None:
    """Its time is up while its last commits may still come; nobody is there to be judged slow."""
    world = World()
    first = world.join()
    assert world.handovers.ask(first, KEY, lambda verdict: None) is Verdict.OFFSET
    assert world.handovers.begin_pull(first, KEY, 0)  # and never again
    second = world.join()
    world.time.advance(LIMIT_MS - 10)
    for connection in (first, second):
        world.members.unregister_consumer(connection, "g")
    world.time.advance(2 * LIMIT_MS)
    for connection in (first, second):
        world.handovers.closed(connection)
    assert world.handovers.is_empty


def test_thousands_that_join_at_once_hold_nobody_up() -> None:
    """Each asks who is there, and is answered at the same time as all others are."""
    world = World()
    first = world.join()
    assert world.handovers.ask(first, KEY, lambda verdict: None) is Verdict.OFFSET
    assert world.handovers.begin_pull(first, KEY, 0)  # and never again
    heard: list[list[str] | None] = []
    for connection in [world.join() for _ in range(3_000)]:
        assert not world.handovers.ask_members(connection, "g", heard.append)
    began_s = time.process_time()
    world.time.advance(HELD_MS)
    assert time.process_time() - began_s < 1.0  # looking at all for each: four times that
    assert heard == [["c1"]] * 3_000


def test_a_group_that_is_too_slow_is_not_waited_for_again() -> None:
    """For ten minutes: its handlers last longer than anybody waits."""
    world = World()
    first = world.join()
    assert world.handovers.ask(first, KEY, lambda verdict: None) is Verdict.OFFSET
    assert world.handovers.begin_pull(first, KEY, 0)  # and never again
    for _ in range(MISSES_MAX):
        assert LIMIT_MS <= world.told_after() <= LIMIT_MS + 200
        world.time.advance(2 * LIMIT_MS)  # it rests for as long as it was waited for
    assert QUICK_MS <= world.told_after() <= QUICK_MS + 200
    world.time.advance(SLOW_MS)
    assert LIMIT_MS <= world.told_after() <= LIMIT_MS + 200


@pytest.mark.parametrize("failing", ["notify", "wake_pulls"])
def test_what_raises_at_the_end_of_a_drain_leaves_no_queue_at_rest(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice or a pull that cannot be sent: the queues are read again all the same."""
    world = World()
    first = world.join()
    keys = [GroupQueue("g", "t", queue_id) for queue_id in range(3)]
    for key in keys:
        assert world.handovers.ask(first, key, lambda verdict: None) is Verdict.OFFSET
        assert world.handovers.begin_pull(first, key, 0)
    world.join()
    assert not any(world.handovers.may_pull(first, key) for key in keys)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Told, failing, fail)
    for _ in range(40):
        with suppress(MemoryError):  # as a loop does, which logs it
            world.time.advance(LIMIT_MS // 20)
    assert all(world.handovers.may_pull(first, key) for key in keys)


def test_an_answer_that_raises_leaves_the_other_questions_their_time() -> None:
    """They are answered when it is up."""
    time, answers = VirtualTime(), list[bool]()

    def fail(members_stand: bool) -> None:
        raise MemoryError

    held = HeldQuestions(time.later)
    assert held.hold(("g", None), fail) and held.hold(("g", None), answers.append)
    with pytest.raises(MemoryError):
        held.answer_all(("g", None))
    time.advance(HELD_MS)
    assert answers == [False] and not len(held)
