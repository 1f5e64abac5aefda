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


async def test_a_slow_reader_is_cut_off(start_server: Servers) -> None:
    """One that leaves more unread than allowed loses its connection, nobody else's."""

    def flood(connection: Connection, command: Command) -> None:
        for _ in range(400):
            connection.send(command.reply(0, {}, bytes(100_000)))

    server = await start_server(flood, NetLimits(write_bytes_max=4_000_000))
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(Command(1000, {}, b"", 1)))
        await until(lambda: server.statistics().closed.get("slow reader"))
        assert await peer.closed()
    assert server.budget.unsent_bytes == 0


async def test_many_slow_readers_together_are_bounded(start_server: Servers) -> None:
    """Each within its own limit, all together beyond theirs: the ones paused longest go."""

    def flood(connection: Connection, command: Command) -> None:
        connection.send(command.reply(0, {}, bytes(8_000_000)))

    limits = NetLimits(unsent_bytes_max=20_000_000)
    server = await start_server(flood, limits)
    peers = [await RawPeer.connect(server.port) for _ in range(12)]
    for peer in peers:
        await peer.send(encode_frame(Command(1000, {}, b"", 1)))
    await until(lambda: server.statistics().closed.get("slow readers"))
    assert server.budget.unsent_bytes <= limits.unsent_bytes_max
    for peer in peers:
        peer.writer.transport.abort()


@pytest.mark.parametrize("limit", ["write_bytes_max", "unsent_bytes_max"])
async def test_a_close_may_find_out_that_too_much_is_unsent(
    start_server: Servers, limit: str
) -> None:
    """What leaves last goes beyond a limit: the peer is cut off, and the server still stops."""

    def flood(connection: Connection, command: Command) -> None:
        connection.send(command.reply(0, {}, bytes(20_000_000)))
        asyncio.get_running_loop().call_later(0.3, last, connection)

    def last(connection: Connection) -> None:
        unsent_bytes = connection.transport.get_write_buffer_size()
        connection.limits = connection.budget.limits = NetLimits(**{limit: unsent_bytes})
        connection.write(bytes(1000))
        connection.close("enough")
        closed.set_result(connection.close_reason)

    closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = await start_server(flood)
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(Command(1000, {}, b"", 1)))
        reason = "slow reader" if limit == "write_bytes_max" else "slow readers"
        async with asyncio.timeout(10):
            assert await closed == reason
            await server.close()
    assert server.statistics().closed == {reason: 1}


async def test_a_paused_peer_is_cut_off_in_time(start_server: Servers) -> None:
    """One that never reads again does not keep its buffers for ever."""

    def flood(connection: Connection, command: Command) -> None:
        connection.send(command.reply(0, {}, bytes(12_000_000)))

    server = await start_server(flood, NetLimits(write_timeout_s=0.3, sweep_interval_s=0.05))
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(Command(1000, {}, b"", 1)))
        await until(lambda: server.statistics().closed == {"write timeout": 1})
