"""A peer is not read from while it takes no replies, or while too many of its requests wait."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from support.raw_peer import RawPeer
from support.servers.net_servers import Servers
from support.waiting import until

from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.routes import Dispatcher, NoHeader, Reply, Request, Routes


async def test_replies_of_one_read_do_not_pile_up(start_server: Servers) -> None:
    """A peer with too much unsent gets no further request of the same read served."""
    handled: list[int] = []

    def answer(connection: Connection, command: Command) -> None:
        handled.append(command.opaque)
        connection.send(command.reply(0, {}, bytes(8_000_000)))

    server = await start_server(answer)
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(b"".join(encode_frame(Command(1, {}, b"", n)) for n in range(50)))
        await until(lambda: server.budget.unsent_bytes)
        await asyncio.sleep(0.05)
        assert len(handled) <= 2
        for n in range(50):
            assert (await peer.read()).opaque == n


@pytest.mark.parametrize(
    "limits",
    [
        NetLimits(waiting_requests_max=3),
        NetLimits(waiting_bytes_max=2_500),
        NetLimits(waiting_total_bytes_max=2_500),
    ],
)
async def test_requests_that_wait_are_limited(start_server: Servers, limits: NetLimits) -> None:
    """Further ones are not read until some are answered; all of them are in the end."""
    room = asyncio.Semaphore(0)
    begun: list[int] = []
    tasks = set()
    slow: Routes[None] = Routes("slow")

    @slow.on(1)
    async def wait(ctx: None, asked: Request[NoHeader]) -> Reply:
        begun.append(asked.command.opaque)
        await room.acquire()
        return Reply()

    def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    server = await start_server(Dispatcher(None, [slow], spawn), limits)
    async with await RawPeer.connect(server.port) as peer:
        frames = [encode_frame(Command(1, {}, bytes(1000), n)) for n in range(40)]
        await peer.send(b"".join(frames))
        await until(lambda: len(begun) == 3)
        await asyncio.sleep(0.05)
        assert begun == [0, 1, 2]
        for _ in range(40):
            room.release()
        assert sorted([(await peer.read()).opaque for _ in range(40)]) == list(range(40))
    assert server.budget.waiting_bytes == 0
