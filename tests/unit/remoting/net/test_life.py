"""The life of a connection is the table of its moves, and nobody else writes what it governs."""

import asyncio
from itertools import product
from pathlib import Path

import pytest
from support.lives import drawing, table_of_moves, table_of_states, written_outside
from support.wire import Wire

from aerobee.remoting.errors import ConnectionLost
from aerobee.remoting.net import connection as module
from aerobee.remoting.net.connection import LIFE, Connection, State
from aerobee.remoting.net.reading import ReadingSide

NET = Path(module.__file__).resolve().parent
ROOT = NET.parents[1]
WAYS = {
    State.NEW: [],
    State.OPEN: ["connection_made"],
    State.CLOSING: ["connection_made", "close"],
    State.GONE: ["connection_made", "close", "connection_lost"],
}
ARGUMENTS = {"close": "enough", "abort": "too much", "connection_lost": None}
AFTER = {(move.before, move.name): move.after for move in LIFE.moves}


def move(connection: Connection, name: str) -> None:
    """Make one move, as the transport or an owner does."""
    getattr(connection, name)(ARGUMENTS.get(name) if name in ARGUMENTS else Wire())


def in_state(state: State) -> Connection:
    """Bring a connection there."""
    connection = Connection(lambda connection, command: None)
    for name in WAYS[state]:
        move(connection, name)
    return connection


@pytest.mark.parametrize("state", State)
async def test_what_others_ask_follows_from_the_state(state: State) -> None:
    """Only what is open is sent to; it is gone where there is no transport."""
    connection = in_state(state)
    assert connection.closed is (state is not State.OPEN)
    assert connection.gone is (state in {State.NEW, State.GONE})


@pytest.mark.parametrize("name", ["close", "abort"])
@pytest.mark.parametrize("state", [State.OPEN, State.CLOSING])
async def test_the_first_reason_to_close_counts(state: State, name: str) -> None:
    """Once; who ends what is closed changes nothing."""
    connection = in_state(state)
    reason = connection.close_reason or ARGUMENTS[name]
    move(connection, name)
    assert (connection.closed, connection.gone) == (True, False)
    assert connection.close_reason == reason
    assert connection.budget.closed == {reason: 1}


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSING])
async def test_the_end_of_the_transport_ends_whoever_waits(state: State) -> None:
    """Calls fail, owners are told, what was kept is dropped."""
    connection = in_state(State.OPEN)
    told: list[Connection] = []
    connection.on_closed.append(told.append)
    waiting = asyncio.ensure_future(connection.wait_closed())
    reply = connection.begin(1, {}, b"", 60)
    connection.data_received(b"\0\0")
    if state is State.CLOSING:
        connection.abort("too much")
    connection.connection_lost(None)
    await asyncio.wait_for(waiting, 5)
    with pytest.raises(ConnectionLost):
        await reply
    assert (told, connection.gone, connection.budget.partial_bytes) == ([connection], True, 0)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (state, name)
        for state, name in product(State, ["connection_made", "connection_lost"])
        if (state, name) not in AFTER
    ],
)
async def test_a_transport_that_begins_or_ends_twice_is_a_mistake(state: State, name: str) -> None:
    """What the table does not know is refused."""
    connection = in_state(state)
    with pytest.raises(RuntimeError, match="no such move"):
        move(connection, name)
    assert connection.closed is (state is not State.OPEN)


def test_the_drawing_is_the_table() -> None:
    """The room's README draws these states and these moves, each with when it happens."""
    readme = (NET / "README.md").read_text()
    assert drawing(LIFE, State.NEW) in readme
    assert table_of_states(State, "what may still be sent and served") in readme
    assert table_of_moves(LIFE) in readme


def test_only_the_connection_writes_its_fields() -> None:
    """No module assigns from outside what a connection, or its reading side, keeps of itself."""
    given = {"budget", "handler", "limits", "msgpack", "on_closed", "transport"}  # by its owner
    fields = {*Connection.__slots__, *ReadingSide.__slots__} - given
    for folder in ("remoting", "broker", "client", "namesrv"):
        written = written_outside(ROOT / folder, fields)
        assert not written, "call a method of the connection instead"
