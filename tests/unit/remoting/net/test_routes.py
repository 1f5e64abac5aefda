"""Dispatch: headers decoded once, errors mapped to replies, one-way requests left alone."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest
from support.stand_ins.fake_connection import FakeConnection

from aerobee.remoting.command import FLAG_ONEWAY, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.routes import Dispatcher, Reply, Request, Routes
from aerobee.remoting.net.tasks import Tasks


class Add(Header, frozen=True, kw_only=True):
    """Asks for a sum."""

    left: int
    right: int


class Sum(Header, frozen=True, kw_only=True):
    """A sum."""

    total: int


routes: Routes[list[str]] = Routes("test")


@routes.on(1, Add)
def add(ctx: list[str], request: Request[Add]) -> Sum:
    """Answer with a header alone."""
    ctx.append("add")
    return Sum(total=request.header.left + request.header.right)


@routes.on(2)
async def wait(ctx: list[str], request: Request[Header]) -> Reply:
    """Answer later, with a body and more fields."""
    await asyncio.sleep(0)
    return Reply(body=b"later", code=7, remark="seven", ext={"extra": "1"})


@routes.on(3)
def refuse(ctx: list[str], request: Request[Header]) -> None:
    """Refuse."""
    raise RequestError(17, "no such topic")


@routes.on(4)
async def fail(ctx: list[str], request: Request[Header]) -> None:
    """Fail while waiting."""
    raise KeyError("bug")


@routes.on(5)
def silent(ctx: list[str], request: Request[Header]) -> None:
    """Answer by itself, or never."""


async def ask(command: Command) -> list[Command]:
    """Dispatch one command and return the replies."""
    tasks: list[asyncio.Task[None]] = []

    def spawn(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(coroutine))
        return tasks[-1]

    peer = FakeConnection()
    Dispatcher([], [routes], spawn)(peer, command)
    await asyncio.gather(*tasks)
    assert (peer.budget.waiting, peer.budget.waiting_bytes) == ({}, 0)
    return peer.sent


async def test_a_plain_processor_is_answered_at_once() -> None:
    """Fields travel as text both ways, under the request's opaque."""
    (reply,) = await ask(Command(code=1, ext={"left": "2", "right": "3", "other": "x"}, opaque=9))
    assert (reply.code, reply.ext, reply.opaque) == (0, {"total": "5"}, 9)


async def test_a_waiting_processor_is_answered_later() -> None:
    """Body, code, remark and extra fields arrive."""
    (reply,) = await ask(Command(code=2))
    assert (reply.code, reply.remark, reply.body) == (7, "seven", b"later")
    assert reply.ext == {"extra": "1"}


@pytest.mark.parametrize(
    ("command", "code", "remark"),
    [
        (Command(code=1, ext={"left": "2"}), 1, "right"),
        (Command(code=1, ext={"left": "2", "right": "x"}), 1, "right"),
        (Command(code=3), 17, "no such topic"),
        (Command(code=4), 1, "KeyError"),
        (Command(code=6), 3, " request type 6 not supported"),
    ],
)
async def test_every_fault_becomes_a_reply(command: Command, code: int, remark: str) -> None:
    """Bad fields, refusals, bugs and unknown codes are answered, each with its code."""
    (reply,) = await ask(command)
    assert reply.code == code
    assert remark in (reply.remark or "")


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6])
async def test_one_way_requests_get_no_reply(code: int) -> None:
    """Not even an error."""
    command = Command(code=code, ext={"left": "1", "right": "1"}, flag=FLAG_ONEWAY)
    assert await ask(command) == []


async def test_a_processor_may_answer_by_itself() -> None:
    """None means that nothing is sent on its behalf."""
    assert await ask(Command(code=5)) == []


def test_a_code_served_twice_is_refused() -> None:
    """Two functions for one code are a mistake that shows at start."""
    with pytest.raises(ValueError, match="1 is registered twice"):
        routes.on(1)(silent)
    with pytest.raises(ValueError, match="registered twice"):
        Dispatcher([], [routes, routes], lambda coroutine: None)


@pytest.mark.parametrize("closed_first", [True, False])
@pytest.mark.filterwarnings("error")
async def test_a_request_at_the_end_leaves_nothing_behind(closed_first: bool) -> None:
    """Where no task runs any more, or ends before it began, the processor's work is closed, too.

    Python would say that it was never awaited, and the peer be charged for it for ever.
    """
    tasks = Tasks()
    peer = FakeConnection()
    begun: list[str] = []
    never: Routes[list[str]] = Routes("never")

    @never.on(1)
    async def work(ctx: list[str], request: Request[Header]) -> None:
        ctx.append("begun")

    dispatch = Dispatcher(begun, [never], tasks.start)
    if closed_first:
        await tasks.close()
    dispatch(peer, Command(code=1, body=b"four"))
    await tasks.close()
    await asyncio.sleep(0)
    assert (peer.budget.waiting, peer.budget.waiting_bytes, begun, peer.sent) == ({}, 0, [], [])
    gc.collect()
