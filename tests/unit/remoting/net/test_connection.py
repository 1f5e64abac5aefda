"""One connection over a real socket: requests, calls, and peers that behave badly."""

import asyncio
from collections.abc import Callable

import pytest
from support.raw_peer import RawPeer
from support.servers.net_servers import Servers, echo
from support.waiting import until

from aerobee.remoting.command import FLAG_ONEWAY, Codec, Command
from aerobee.remoting.errors import CallTimedOut, ConnectionLost, Unavailable
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.server import Server


def request(opaque: int, body: bytes = b"", code: int = 1000) -> Command:
    """A request that the echo server answers."""
    return Command(code=code, ext={"n": str(opaque)}, body=body, opaque=opaque)


@pytest.mark.parametrize("cut_bytes", [1, 7, 1000, 1 << 20])
async def test_requests_survive_any_split(start_server: Servers, cut_bytes: int) -> None:
    """However the requests arrive, each is answered once and in order."""
    server = await start_server()
    stream = b"".join(encode_frame(request(n, bytes(n * 10))) for n in range(20))
    async with await RawPeer.connect(server.port) as peer:
        for at in range(0, len(stream), cut_bytes):
            await peer.send(stream[at : at + cut_bytes])
            await asyncio.sleep(0)
        for n in range(20):
            reply = await peer.read()
            assert (reply.opaque, reply.ext["n"], len(reply.body)) == (n, str(n), n * 10)
            assert reply.is_response


async def test_a_large_body_goes_both_ways(start_server: Servers) -> None:
    """Fifteen megabytes in one frame come back unharmed."""
    server = await start_server()
    body = bytes(range(256)) * 4096 * 15
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(request(1, body)))
        assert (await peer.read(timeout_s=20)).body == body
    assert not server.budget.partials


async def test_calls_on_one_connection_find_their_own_replies(start_server: Servers) -> None:
    """A hundred calls at once get the reply to their own request."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    calls = [pool.call(address, request(7, str(n).encode()), 5) for n in range(100)]
    replies = await asyncio.gather(*calls)
    assert [int(bytes(reply.body)) for reply in replies] == list(range(100))
    assert len(server.connections) == 1
    await pool.close()


async def test_a_call_without_reply_times_out(start_server: Servers) -> None:
    """The caller is told the code, the peer and the time; nothing stays behind."""
    server, pool = await start_server(), ConnectionPool()
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    with pytest.raises(CallTimedOut, match=r"code 999 from 127.0.0.1:\d+ in 0.05 s"):
        await connection.call(request(1, code=999), 0.05)
    assert connection.calls_waiting == 0
    await pool.close()


async def test_a_call_ends_when_the_connection_does(start_server: Servers) -> None:
    """Whoever waits for a reply hears at once that it cannot come."""
    server, pool = await start_server(), ConnectionPool()
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    call = asyncio.create_task(connection.call(request(1, code=999), 30))
    await until(lambda: server.connections)
    closed: list[Connection] = []
    connection.on_closed.append(closed.append)
    await server.close()
    with pytest.raises(ConnectionLost):
        await call
    await connection.wait_closed()
    assert closed == [connection]
    with pytest.raises(ConnectionLost):
        connection.oneway(request(1))
    await pool.close()


async def test_calls_that_wait_are_limited(start_server: Servers) -> None:
    """One more call than allowed is refused before anything is sent."""
    server, pool = await start_server(), ConnectionPool(limits=NetLimits(calls_max=3))
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    calls = [asyncio.create_task(connection.call(request(1, code=999), 30)) for _ in range(3)]
    await until(lambda: connection.calls_waiting == 3)
    with pytest.raises(Unavailable, match="3 calls"):
        await connection.call(request(1), 30)
    await pool.close()
    assert all(isinstance(each, ConnectionLost) for each in await gather_errors(calls))


async def gather_errors(tasks: list[asyncio.Task[Command]]) -> list[object]:
    """Collect what the tasks raised."""
    return list(await asyncio.gather(*tasks, return_exceptions=True))


async def test_a_peer_may_call_back(start_server: Servers) -> None:
    """The server asks the client on the client's own connection."""
    answers: list[Command] = []

    def ask_back(connection: Connection, command: Command) -> None:
        async def ask() -> None:
            answers.append(await connection.call(Command(code=40, ext={"who": "you"}), 5))
            connection.send(command.reply())

        asking.append(asyncio.ensure_future(ask()))

    asking: list[asyncio.Future[None]] = []
    server = await start_server(ask_back)
    pool = ConnectionPool(lambda connection, command: connection.send(command.reply(0, {"a": "b"})))
    await pool.call(f"127.0.0.1:{server.port}", request(1), 5)
    assert answers[0].ext == {"a": "b"}
    await pool.close()


async def test_one_way_requests_carry_the_flag(start_server: Servers) -> None:
    """A one-way request arrives marked as such and gets no reply."""
    got: list[Command] = []
    server, pool = await start_server(lambda _, command: got.append(command)), ConnectionPool()
    await pool.oneway(f"127.0.0.1:{server.port}", request(1))
    await until(lambda: got)
    assert got[0].flag & FLAG_ONEWAY
    await pool.close()


async def test_requests_use_msgpack_once_agreed(start_server: Servers) -> None:
    """After the owner says so, requests of this side are encoded in msgpack."""
    got: list[int] = []

    def note(connection: Connection, command: Command) -> None:
        got.append(command.codec)
        connection.send(command.reply())

    server, pool = await start_server(note), ConnectionPool()
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    await connection.call(request(1), 5)
    connection.msgpack = True
    assert (await connection.call(request(1), 5)).codec == Codec.MSGPACK
    assert got == [Codec.JSON, Codec.MSGPACK]
    await pool.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x08\x09\x00\x00\x04abcd",
        b"\x00\x00\x00\x08\x00\x00\x00\xffabcd",
    ],
)
async def test_garbage_closes_its_connection_and_no_other(
    start_server: Servers, garbage: bytes
) -> None:
    """A peer that speaks something else is cut off; its neighbour notices nothing."""
    server = await start_server()
    async with (
        await RawPeer.connect(server.port) as good,
        await RawPeer.connect(server.port) as bad,
    ):
        await bad.send(encode_frame(request(5)) + garbage)
        assert (await bad.read()).opaque == 5  # what came before was sound and is answered
        assert await bad.closed()
        assert (await good.request(request(6))).opaque == 6
    assert server.statistics().closed["protocol error"] == 1


@pytest.mark.parametrize("begun_bytes", [1, 3, 10, 5_000, 50_000])
async def test_a_frame_that_never_ends_is_cut_off(start_server: Servers, begun_bytes: int) -> None:
    """However little of a frame is there, its rest may take only so long, and drip or not."""
    server = await start_server(limits=NetLimits(frame_timeout_s=0.3, sweep_interval_s=0.05))
    frame = encode_frame(request(1, bytes(100_000)))
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(frame[:begun_bytes])
        await until(lambda: server.budget.partial_bytes == begun_bytes)
        await peer.send(frame[begun_bytes : begun_bytes + 10])
        assert await peer.closed(timeout_s=2)
    assert server.statistics().closed == {"frame timeout": 1}
    assert server.budget.partial_bytes == 0


async def test_a_frame_is_in_time_as_long_as_it_is_not_read(start_server: Servers) -> None:
    """While unsent replies stop the reading, the rest of a frame cannot come and is not missed."""
    loop = asyncio.get_running_loop()

    def flood(connection: Connection, command: Command) -> None:
        loop.call_later(0.05, connection.send, command.reply(0, {}, bytes(12_000_000)))

    server = await start_server(flood, NetLimits(frame_timeout_s=0.3, sweep_interval_s=0.05))
    first, second = encode_frame(request(1)), encode_frame(request(2))
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(first + second[:10])
        await until(lambda: server.budget.unsent_bytes and server.budget.partial_bytes)
        await asyncio.sleep(0.6)
        await peer.send(second[10:])
        assert [(await peer.read()).opaque for _ in range(2)] == [1, 2]
    assert server.statistics().closed == {}


def partly(server: Server, held_bytes: int) -> Callable[[], bool]:
    """A condition: so many bytes of unfinished frames are held."""
    return lambda: server.budget.partial_bytes >= held_bytes


async def test_unfinished_frames_of_all_are_bounded(start_server: Servers) -> None:
    """When many hold half a frame each, the oldest go and the newest is served."""
    server = await start_server(limits=NetLimits(partial_bytes_max=1_000_000))
    half = encode_frame(request(1, bytes(400_000)))[:300_000]
    stalled = [await RawPeer.connect(server.port) for _ in range(6)]
    for number, peer in enumerate(stalled, 1):
        await peer.send(half)
        await until(partly(server, min(number, 3) * 300_000))
    async with await RawPeer.connect(server.port) as peer:
        assert len((await peer.request(request(2, bytes(600_000)))).body) == 600_000
    assert server.budget.partial_bytes <= 1_000_000
    assert server.statistics().closed["partial frames"] >= 3
    for peer in stalled:
        peer.writer.transport.abort()


async def test_a_peer_that_does_not_read_is_not_read_from(start_server: Servers) -> None:
    """Unsent replies stop the reading of requests; when the peer reads, all are answered."""
    handled: list[int] = []

    def answer(connection: Connection, command: Command) -> None:
        handled.append(command.opaque)
        echo(connection, command)

    limits = NetLimits(write_pause_bytes=100_000, write_resume_bytes=10_000)
    server = await start_server(answer, limits)
    body, count = bytes(200_000), 200
    stream = b"".join(encode_frame(request(n, body)) for n in range(count))
    async with await RawPeer.connect(server.port) as peer:
        sending = asyncio.create_task(peer.send(stream))
        await until(lambda: server.budget.unsent_bytes > 0)
        seen = -1
        while seen < len(handled):  # as long as the system's own buffers grow
            seen = len(handled)
            await asyncio.sleep(0.1)
        assert seen < count
        for n in range(count):
            assert (await peer.read()).opaque == n
        await sending
    await until(lambda: server.budget.unsent_bytes == 0)


async def test_a_busy_peer_leaves_others_their_turn(start_server: Servers) -> None:
    """With thousands of requests of one peer waiting, another's is answered in between."""
    order: list[str] = []

    def note(connection: Connection, command: Command) -> None:
        order.append(command.ext["n"])
        if command.ext["n"] == "0" and not others:
            others.append(asyncio.ensure_future(ask_from_elsewhere()))
        connection.send(command.reply())

    others: list[asyncio.Future[None]] = []
    quiet = ConnectionPool()

    async def ask_from_elsewhere() -> None:
        await quiet.call(address, Command(code=1, ext={"n": "other"}), 5)

    server = await start_server(note, NetLimits(frames_per_turn_max=4))
    address = f"127.0.0.1:{server.port}"
    await quiet.connect(address)
    async with await RawPeer.connect(server.port) as busy:
        await busy.send(b"".join(encode_frame(request(n)) for n in range(3000)))
        for n in range(3000):
            assert (await busy.read()).opaque == n
    await others[0]
    numbers = [int(each) for each in order if each != "other"]
    assert numbers == list(range(3000))
    assert order.index("other") < 2500
    await quiet.close()


async def test_a_failing_handler_closes_only_its_connection(
    start_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of our own is logged with its trace and does not reach other peers."""

    def fail(connection: Connection, command: Command) -> None:
        if command.code == 1:
            raise ZeroDivisionError("bug")
        connection.send(command.reply())

    server = await start_server(fail)
    async with (
        await RawPeer.connect(server.port) as good,
        await RawPeer.connect(server.port) as bad,
    ):
        await bad.send(encode_frame(request(1, code=1)))
        assert await bad.closed()
        assert (await good.request(request(2, code=2))).opaque == 2
    assert "ZeroDivisionError" in caplog.text


async def test_addresses_are_known_on_both_sides(start_server: Servers) -> None:
    """The peer's address is there as text, as a pair and as the bytes of a record."""
    server, pool = await start_server(), ConnectionPool()
    connection = await pool.connect(f"localhost:{server.port}")
    assert connection.remote == f"127.0.0.1:{server.port}"
    assert connection.remote_host == ("127.0.0.1", server.port)
    assert connection.host_bytes == b"\x7f\0\0\1" + server.port.to_bytes(4, "big")
    await pool.close()


@pytest.mark.parametrize("end", ["abort", "close", "leave"])
async def test_a_reply_to_a_peer_that_is_gone_is_dropped(
    start_server: Servers, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    """However a connection ends under a reply, nothing is raised and nothing stays behind."""

    def answer(connection: Connection, command: Command) -> None:
        connection.send(command.reply(0, {}, bytes(10_000)))
        if end == "abort":
            connection.abort("test")
        elif end == "close":
            connection.close("test")
        connection.send(command.reply())

    server = await start_server(answer)
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(b"".join(encode_frame(request(n)) for n in range(50)))
        if end != "leave":
            assert await peer.closed()
    await until(lambda: not server.connections)
    assert "Exception" not in caplog.text
    assert "socket.send() raised" not in caplog.text
