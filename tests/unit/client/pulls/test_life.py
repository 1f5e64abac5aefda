"""The life of a process queue is the table of its moves, and nobody else moves it."""

import ast
import asyncio
from itertools import product
from pathlib import Path

import pytest

from aerobee.client.pulls import process_queue
from aerobee.client.pulls.process_queue import MOVES, Life, ProcessQueue

CLIENT = Path(process_queue.__file__).resolve().parents[1]
WAYS = {Life.OWNED: [], Life.DROPPED: ["drop"], Life.RELEASED: ["drop", "release"]}
NAMES = ("drop", "release")
AFTER = {(move.before, move.name): move.after for move in MOVES}


def in_state(life: Life) -> ProcessQueue:
    """Bring a queue there."""
    process = ProcessQueue(0)
    for name in WAYS[life]:
        getattr(process, name)()
    return process


def seen(process: ProcessQueue) -> Life:
    """The state as those see it who ask for each message."""
    return {
        (False, False): Life.OWNED,
        (True, False): Life.DROPPED,
        (True, True): Life.RELEASED,
    }[process.dropped, process.released]


@pytest.mark.parametrize(("life", "name"), [*product(Life, NAMES)])
def test_each_move_is_the_one_of_the_table(life: Life, name: str) -> None:
    """What the table does not know is refused, and changes nothing."""
    process = in_state(life)
    assert seen(process) is life
    if (after := AFTER.get((life, name))) is None:
        with pytest.raises(RuntimeError, match="no such move"):
            getattr(process, name)()
        assert seen(process) is life
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
    drawing = ["```mermaid", "stateDiagram-v2", "    [*] --> owned"]
    drawing += [
        f"    {move.before.name.lower()} --> {move.after.name.lower()}: {move.name}"
        for move in MOVES
    ]
    drawing.append("```")
    table = ["| state | what may still become of its messages |", "| --- | --- |"]
    table += [f"| {life.name.lower()} | {life.value} |" for life in Life]
    moves = ["| move | from | when |", "| --- | --- | --- |"]
    moves += [f"| `{move.name}` | {move.before.name.lower()} | {move.when} |" for move in MOVES]
    readme = (CLIENT / "pulls/README.md").read_text()
    for lines in (drawing, table, moves):
        assert "\n".join(lines) in readme


def test_only_the_queue_writes_its_fields() -> None:
    """No module of the client assigns a field of a process queue from outside."""
    fields = set(ProcessQueue.__slots__)
    written = [
        f"{path.relative_to(CLIENT)}:{node.lineno} {ast.unparse(node)}"
        for path in CLIENT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, (ast.Store, ast.Del))
        and node.attr in fields
        and ast.unparse(node.value) != "self"
    ]
    assert not written, "call a move of process_queue.py instead"
