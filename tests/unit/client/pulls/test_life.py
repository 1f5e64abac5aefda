"""The life of a process queue is the table of its moves, and nobody else moves it."""

import asyncio
from itertools import product
from pathlib import Path

import pytest
from support.lives import drawing, table_of_moves, table_of_states, written_outside

from aerobee.client.pulls import process_queue
from aerobee.client.pulls.process_queue import LIFE, ProcessQueue, Stage

CLIENT = Path(process_queue.__file__).resolve().parents[1]
WAYS = {Stage.OWNED: [], Stage.DROPPED: ["drop"], Stage.RELEASED: ["drop", "release"]}
NAMES = ("drop", "release")
AFTER = {(move.before, move.name): move.after for move in LIFE.moves}


def in_state(state: Stage) -> ProcessQueue:
    """Bring a queue there."""
    process = ProcessQueue(0)
    for name in WAYS[state]:
        getattr(process, name)()
    return process


def seen(process: ProcessQueue) -> Stage:
    """The state as those see it who ask for each message."""
    return {
        (False, False): Stage.OWNED,
        (True, False): Stage.DROPPED,
        (True, True): Stage.RELEASED,
    }[process.dropped, process.released]


@pytest.mark.parametrize(("state", "name"), [*product(Stage, NAMES)])
def test_each_move_is_the_one_of_the_table(state: Stage, name: str) -> None:
    """What the table does not know is refused, and changes nothing."""
    process = in_state(state)
    assert seen(process) is state
    if (after := AFTER.get((state, name))) is None:
        with pytest.raises(RuntimeError, match="no such move"):
            getattr(process, name)()
        assert seen(process) is state
    else:
        getattr(process, name)()
        assert seen(process) is after


@pytest.mark.parametrize("name", NAMES)
async def test_who_waits_for_room_hears_of_the_loss(name: str) -> None:
    """Whichever move it was: the pull loop has to end."""
    process = ProcessQueue(0)
    waiting = asyncio.ensure_future(process.wait_for_room(0, 60))
    await asyncio.sleep(0)
    getattr(process, name)()
    await asyncio.wait_for(waiting, 5)


def test_the_drawing_is_the_table() -> None:
    """The room's README draws these states and these moves, each with when it happens."""
    readme = (CLIENT / "pulls/README.md").read_text()
    assert drawing(LIFE, Stage.OWNED) in readme
    assert table_of_states(Stage, "what may still become of its messages") in readme
    assert table_of_moves(LIFE) in readme


def test_only_the_queue_writes_its_fields() -> None:
    """No module of the client assigns a field of a process queue from outside."""
    written = written_outside(CLIENT, set(ProcessQueue.__slots__))
    assert not written, "call a move of process_queue.py instead"
