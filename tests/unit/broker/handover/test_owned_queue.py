"""The life of a group's queue is the table of its moves, and nobody else moves it."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from support.lives import drawing, table_of_moves, table_of_states, written_outside
from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.virtual_time import VirtualTime

from aerobee.broker.handover import owned_queue
from aerobee.broker.handover.owned_queue import (
    LIFE,
    Alarm,
    Claim,
    Holder,
    OwnedQueue,
    Signs,
)
from aerobee.broker.members.group import GroupQueue

ROOM = Path(owned_queue.__file__).parent
AFTER = {(move.before, move.name): move.after for move in LIFE.moves}
WAYS = {
    Claim.FREE: (),
    Claim.OWNED: ("give",),
    Claim.CONTESTED: ("give", "contest"),
    Claim.OVERDUE: ("give", "contest", "time_is_up"),
    Claim.KEPT: ("give", "contest", "vacate"),
}


class World:
    """One queue, and what its moves need."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.queue = OwnedQueue(GroupQueue("g", "t", 0))
        queue = self.queue
        self.moves: dict[str, Callable[[], None]] = {
            "give": lambda: queue.give(Holder(FakeConnection(), "c1", None)),
            "contest": lambda: queue.contest(self.time.later(1, lambda: None)),
            "time_is_up": queue.time_is_up,
            "vacate": queue.vacate,
            "unasked": queue.unasked,
        }


@pytest.mark.parametrize(("claim", "name"), [*product(Claim, World().moves)])
def test_each_move_is_the_one_of_the_table(claim: Claim, name: str) -> None:
    """What the table does not know is refused, and changes nothing."""
    world = World()
    for step in WAYS[claim]:
        world.moves[step]()
    queue = world.queue
    owner = queue.owner
    assert queue.claim is claim
    if (after := AFTER.get((claim, name))) is None:
        with pytest.raises(RuntimeError, match="no such move"):
            world.moves[name]()
        assert (queue.claim, queue.owner) == (claim, owner)
        return
    world.moves[name]()
    assert queue.claim is after
    assert (queue.owner is None) is (after in (Claim.FREE, Claim.KEPT))
    assert queue.contested is queue.limit.is_set or after is Claim.OVERDUE
    assert world.time.pending == queue.limit.is_set


def test_the_table_names_every_move() -> None:
    """And every state can be left."""
    assert {move.name for move in LIFE.moves} == set(World().moves)
    assert {move.before for move in LIFE.moves} == {move.after for move in LIFE.moves} == {*Claim}


def test_the_drawing_is_the_table() -> None:
    """HANDOVER.md draws these states and these moves, each with when it happens."""
    page = (ROOM / "HANDOVER.md").read_text()
    assert drawing(LIFE, Claim.FREE) in page
    assert table_of_states(Claim, "who may have it") in page
    assert table_of_moves(LIFE) in page


def test_only_a_queue_writes_what_is_known_of_it() -> None:
    """No module of the room assigns a field of a queue, its owner or its signs from outside."""
    fields = {*OwnedQueue.__slots__, *Signs.__slots__, *Alarm.__slots__, *Holder.__slots__}
    written = written_outside(ROOM, fields)
    assert not written, "call a move of owned_queue.py instead"


def test_an_alarm_that_is_set_anew_rings_once() -> None:
    """At the later time, and not at all where it was stopped."""
    time, rung = VirtualTime(), list[int]()
    alarm = Alarm()
    alarm.set(time.later(1, lambda: rung.append(1)))
    alarm.set(time.later(2, lambda: rung.append(2)))
    time.advance(3_000)
    assert rung == [2]
    alarm.set(time.later(1, lambda: rung.append(3)))
    alarm.stop()
    time.advance(3_000)
    assert rung == [2] and not alarm.is_set
