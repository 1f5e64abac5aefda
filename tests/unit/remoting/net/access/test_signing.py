"""Connections that sign what leaves, and those that ask: both ends of one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.access.book import AccessBook
from aerobee.remoting.net.access.connection import GuardedConnection
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.access.guard import Guard
from aerobee.remoting.net.access.guesses import BURST
from aerobee.remoting.net.access.rules import Rules
from aerobee.remoting.net.access.signature import is_signed
from aerobee.remoting.net.access.signing import SigningConnection
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.server import Server

ANN = SessionCredentials("ann", "secret")


def echo(connection: Connection, command: Command) -> None:
    """Answer with what came."""
    if not command.is_oneway:
        connection.send(command.reply(0, command.ext, command.body))


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[str, Guard]]:
    """A server that serves ann alone."""
    book, limits = AccessBook(), NetLimits()
    book.create_user(UserInfo(username="ann", password="secret"))
    guard = Guard(book, Rules(authenticates=True), lambda command: ())
    server = await Server.start(
        lambda budget: GuardedConnection(echo, limits, budget, guard=guard),
        "127.0.0.1", 0, limits=limits,
    )  # fmt: skip
    yield f"127.0.0.1:{server.port}", guard
    await server.close()


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.ROCKETMQ, Codec.MSGPACK])
async def test_what_leaves_is_signed(codec: int) -> None:
    """Calls, one-way requests and frames that somebody has encoded, many in one write."""
    async with asking() as (address, guard):
        pool = ConnectionPool(kind=partial(SigningConnection, credentials=ANN))
        connection = await pool.connect(address)
        calls = [
            connection.call(Command(1, {"n": str(n)}, b"x" * n, codec=codec), 5) for n in range(20)
        ]
        for number, reply in enumerate(await asyncio.gather(*calls)):
            assert (reply.code, reply.body) == (0, b"x" * number)
            assert is_signed(b"secret", reply.ext, reply.body, 513)
            assert reply.ext["n"] == str(number)
        connection.oneway(Command(1, {}, codec=codec))
        frame = encode_frame(Command(1, {"a": "b"}, opaque=7_000, codec=codec))
        assert (await connection.begin_frame(frame, 7_000, 1, 5)).ext["a"] == "b"
        assert guard.refused == 0
        await pool.close()


async def test_strangers_get_no_further(caplog: pytest.LogCaptureFixture) -> None:
    """Nor those who guess, who wait past a burst, and are told to go when the server goes."""
    async with asking() as (address, guard):
        stranger = ConnectionPool()
        reply = await stranger.call(address, Command(1), 5)
        assert (reply.code, reply.remark) == (
            ResponseCode.NO_PERMISSION, "username cannot be null.",
        )  # fmt: skip
        await stranger.oneway(address, Command(1))
        wrong = partial(SigningConnection, credentials=SessionCredentials("ann", "guess"))
        guesser = ConnectionPool(kind=wrong)
        for _ in range(BURST):
            assert (await guesser.call(address, Command(1), 5)).code == ResponseCode.NO_PERMISSION
        began_s = asyncio.get_running_loop().time()
        assert (await guesser.call(address, Command(1), 5)).code == ResponseCode.NO_PERMISSION
        assert asyncio.get_running_loop().time() - began_s > 0.4
        connection = await guesser.connect(address)
        connection.oneway(Command(1))
        await guesser.close()
        right = ConnectionPool(kind=partial(SigningConnection, credentials=ANN))
        assert (await right.call(address, Command(1), 5)).code == 0
        await right.close()
        await stranger.close()
        assert guard.refused >= BURST + 3


def test_replies_are_not_signed() -> None:
    """Among requests of one write they leave as they are; a token is signed, too."""
    reply = encode_frame(Command(1, {"a": "b"}).reply(0, {"x": "y"}))
    with_token = SessionCredentials("ann", "secret", "token")
    data = with_token.sign_frames(reply + encode_frame(Command(1)) + reply)
    assert data.startswith(reply)
    assert data.endswith(reply)
    assert b'"SecurityToken":"token"' in data
    assert "secret" not in repr(with_token)


async def test_what_needs_a_body_that_cannot_be_read_is_told() -> None:
    """A refusal of another kind than for want of a right leaves at once, in its own words."""

    def needs(command: Command) -> tuple[()]:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "body is no HeartbeatData")

    book, limits = AccessBook(), NetLimits()
    guard = Guard(book, Rules(authorizes=True), needs)
    book.create_user(UserInfo(username="ann", password="secret"))
    server = await Server.start(
        lambda budget: GuardedConnection(echo, limits, budget, guard=guard),
        "127.0.0.1", 0, limits=limits,
    )  # fmt: skip
    pool = ConnectionPool(kind=partial(SigningConnection, credentials=ANN))
    reply = await pool.call(f"127.0.0.1:{server.port}", Command(34), 5)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "body is no HeartbeatData")
    await pool.close()
    await server.close()
