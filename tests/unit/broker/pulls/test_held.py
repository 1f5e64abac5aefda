"""Waiting pulls: woken by arrival, ended by their deadline, forgotten with their connection."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.pulls.held import SERVED_PER_TURN_MAX, SWEEP_INTERVAL_MS, HoldLimits, Holds
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.writing.queues import TopicQueue


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


class Desk:
    """Records what was served; says what the next serving finds."""

    def __init__(self) -> None:
        self.served: list[tuple[str, bool]] = []
        self.finds = True

    def serve_again(self, pull: Pull, expired: bool) -> bool:
        if self.finds or expired:
            self.served.append((cast(Any, pull).name, expired))
            return True
        return False

    def failed(self, pull: Pull, error: Exception) -> None:
        """Nothing goes wrong in most of these tests."""
        raise error


def make_pull(name: str) -> Pull:
    """Return as much of a pull as holding looks at."""
    return cast(Pull, SimpleNamespace(name=name, connection=FakeConnection()))


def make_queue() -> TopicQueue:
    """Return as much of a queue as holding looks at."""
    return cast(TopicQueue, SimpleNamespace(holds={}))


@pytest.fixture
def clock() -> Clock:
    """A clock of its own for every test."""
    return Clock()


@pytest.fixture
def desk() -> Desk:
    """Whoever serves pulls."""
    return Desk()


@pytest.fixture
def holds(clock: Clock, desk: Desk, soon: list[Callable[[], None]]) -> Holds:
    """Room for three waiting pulls."""
    return Holds(desk, clock, HoldLimits(3, 3), soon.append)


@pytest.fixture
def soon() -> list[Callable[[], None]]:
    """What is to be done in the next turn."""
    return []


def test_arrival_serves_everybody_who_waits_on_that_queue_only(holds: Holds, desk: Desk) -> None:
    """A message wakes the waiters of its queue, once each, however often the queue is named."""
    first, second = make_queue(), make_queue()
    for name, queue in (("a", first), ("b", first), ("c", second)):
        assert holds.hold(make_pull(name), queue, 15_000)
    holds.wake([first, first])
    assert desk.served == [("a", False), ("b", False)]
    assert holds.count == 1
    assert not first.holds


def test_a_pull_that_finds_nothing_it_wants_goes_on_waiting(
    holds: Holds, desk: Desk, clock: Clock
) -> None:
    """An unwanted message wakes nobody; the deadline still ends the wait."""
    queue = make_queue()
    holds.hold(make_pull("a"), queue, 15_000)
    desk.finds = False
    holds.wake([queue])
    assert holds.count == 1
    clock.ms += 15_000 + 2 * SWEEP_INTERVAL_MS
    holds.sweep()
    assert desk.served == [("a", True)]
    assert holds.count == 0
    assert not queue.holds


def test_deadlines_end_no_wait_early(holds: Holds, desk: Desk, clock: Clock) -> None:
    """Until its time is up a pull is left alone."""
    queue = make_queue()
    holds.hold(make_pull("a"), queue, 1_000)
    for _ in range(9):
        clock.ms += 100
        holds.sweep()
        assert desk.served == []
    clock.ms += 300
    holds.sweep()
    assert desk.served == [("a", True)]


def test_a_served_pull_is_not_served_again_at_its_deadline(
    holds: Holds, desk: Desk, clock: Clock
) -> None:
    """One request gets one reply."""
    queue = make_queue()
    holds.hold(make_pull("a"), queue, 1_000)
    holds.wake([queue])
    clock.ms += 10_000
    holds.sweep()
    assert desk.served == [("a", False)]


def test_pulls_of_a_closed_connection_are_dropped(holds: Holds, desk: Desk, clock: Clock) -> None:
    """Nobody is answered on a connection that is gone, by arrival or by time."""
    queue = make_queue()
    gone, left = make_pull("gone"), make_pull("left")
    holds.hold(gone, queue, 1_000)
    holds.hold(left, queue, 1_000)
    cast(Any, gone).connection.closed = True
    holds.wake([queue])
    assert desk.served == [("left", False)]
    cast(Any, left).connection.closed = True
    holds.hold(left, queue, 1_000)
    clock.ms += 10_000
    holds.sweep()
    assert desk.served == [("left", False)]
    assert holds.count == 0


def test_only_so_many_pulls_may_wait(holds: Holds) -> None:
    """Past the limit a pull is not held, and room comes back when one is served."""
    queue = make_queue()
    assert all(holds.hold(make_pull(str(n)), queue, 1_000) for n in range(3))
    assert not holds.hold(make_pull("d"), queue, 1_000)
    holds.wake([queue])
    assert holds.hold(make_pull("d"), queue, 1_000)


def test_a_queue_that_goes_away_answers_its_waiters(holds: Holds, desk: Desk) -> None:
    """Deleting a topic ends the waits on it."""
    queue = make_queue()
    holds.hold(make_pull("a"), queue, 15_000)
    holds.release(queue)
    assert desk.served == [("a", True)]
    assert holds.count == 0


def test_a_closed_connection_makes_room_at_once(holds: Holds, desk: Desk, clock: Clock) -> None:
    """What a client held is forgotten when it leaves, not when its time is up."""
    queue, other = make_queue(), make_queue()
    pulls = [make_pull(str(n)) for n in range(3)]
    for pull in pulls:
        cast(Any, pull).connection = pulls[0].connection
        assert holds.hold(pull, queue, 600_000)
    cast(Any, pulls[0].connection).closed = True
    holds.closed(pulls[0].connection)
    assert holds.count == 0
    assert not queue.holds
    assert all(holds.hold(make_pull(str(n)), other, 1_000) for n in range(3))
    clock.ms += 1_000_000
    holds.sweep()
    assert sorted(desk.served) == [("0", True), ("1", True), ("2", True)]


def test_one_connection_cannot_take_all_the_room(clock: Clock, desk: Desk) -> None:
    """Its further pulls are not held, those of others are."""
    holds = Holds(desk, clock, HoldLimits(10, 2), lambda work: None)
    queue, greedy = make_queue(), make_pull("greedy")
    assert [holds.hold(greedy, queue, 1_000) for _ in range(3)] == [True, True, False]
    assert holds.hold(make_pull("modest"), queue, 1_000)


@pytest.mark.parametrize("by", ["arrival", "deadline", "release"])
def test_a_crowd_is_served_in_several_turns(clock: Clock, desk: Desk, by: str) -> None:
    """So that nobody else has to wait for all of them; each is answered once all the same."""
    soon: list[Callable[[], None]] = []
    count = SERVED_PER_TURN_MAX * 3
    holds = Holds(desk, clock, HoldLimits(count, count), soon.append)
    queue, few = make_queue(), make_queue()
    names = [str(n) for n in range(count)]
    assert all(holds.hold(make_pull(name), queue, 1_000) for name in names[1:])
    holds.hold(make_pull(names[0]), few, 60_000)
    clock.ms += 1_200
    if by == "arrival":
        holds.wake([queue])
    elif by == "deadline":
        holds.sweep()
    else:
        holds.release(queue)
    assert len(desk.served) == SERVED_PER_TURN_MAX
    holds.wake([few])  # overtakes the crowd
    assert desk.served[-1] == (names[0], False)
    holds.sweep()
    while soon:
        soon.pop(0)()
    assert sorted(name for name, _ in desk.served) == sorted(names)
    assert holds.count == 0


@pytest.mark.parametrize("by", ["arrival", "deadline", "release", "turns"])
def test_a_pull_that_fails_harms_nobody_else(clock: Clock, by: str) -> None:
    """Whatever goes wrong in serving one, the others are served and no room is lost."""
    served: list[str] = []
    failed: list[tuple[str, str]] = []
    soon: list[Callable[[], None]] = []

    class BadDesk(Desk):
        def serve_again(self, pull: Pull, expired: bool) -> bool:
            name = cast(Any, pull).name
            if int(name) % 5 == 1:
                raise OSError(5, f"no map for {name}")
            served.append(name)
            return True

        def failed(self, pull: Pull, error: Exception) -> None:
            failed.append((cast(Any, pull).name, str(error)))

    count = SERVED_PER_TURN_MAX * 2 if by == "turns" else 5
    holds = Holds(BadDesk(), clock, HoldLimits(count, count), soon.append)
    queue = make_queue()
    names = [str(n) for n in range(count)]
    assert all(holds.hold(make_pull(name), queue, 1_000) for name in names)
    if by == "deadline":
        clock.ms += 2_000
        holds.sweep()
    elif by == "release":
        holds.release(queue)
    else:
        holds.wake([queue])
    while soon:
        soon.pop(0)()
    assert served == [name for name in names if int(name) % 5 != 1]
    assert failed == [
        (name, f"[Errno 5] no map for {name}") for name in names if int(name) % 5 == 1
    ]
    assert holds.count == 0
    clock.ms += 10_000
    holds.sweep()
    assert len(served) + len(failed) == count, "one request gets one reply"
