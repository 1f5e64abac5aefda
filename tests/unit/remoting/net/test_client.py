"""The pool: one connection per address, made when needed, and clear errors when it cannot be."""

import asyncio
import socket
import time

import pytest
from support.servers.net_servers import Servers
from support.servers.tls_certs import CERTS, mutual_tls
from support.waiting import until

from aerobee.remoting.command import Command
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.net.addresses import BadAddress
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.tls import TlsClientSettings

REQUEST = Command(code=1, ext={"n": "1"})


async def test_callers_share_the_making_of_a_connection(start_server: Servers) -> None:
    """Fifty first calls at once make one connection."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    await asyncio.gather(*(pool.call(address, REQUEST, 5) for _ in range(50)))
    assert server.statistics().accepted_total == 1
    await pool.close()


async def test_a_lost_connection_is_made_again(start_server: Servers) -> None:
    """After the peer closed, the next call connects anew."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    await pool.call(address, REQUEST, 5)
    for connection in list(server.connections):
        connection.close("test")
    await until(lambda: pool.get(address) is None)
    assert (await pool.call(address, REQUEST, 5)).ext == {"n": "1"}
    assert server.statistics().accepted_total == 2
    await pool.close()


async def test_nobody_there_is_told_at_once() -> None:
    """A refused connection names the address; nothing was sent."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pool = ConnectionPool()
    with pytest.raises(NotConnected, match=f"^127.0.0.1:{port}: Connection refused$"):
        await pool.call(f"127.0.0.1:{port}", REQUEST, 5)
    await pool.close()


async def test_connecting_takes_its_time_from_the_call() -> None:
    """A peer whose backlog is full costs the caller no more than its own time-out."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = f"127.0.0.1:{full.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        pool = ConnectionPool(limits=NetLimits(connect_timeout_s=0.4))
        with pytest.raises(NotConnected, match=r"in 0\.1 s"):
            await pool.call(address, REQUEST, 0.1)
        with pytest.raises(NotConnected, match=r"in 0\.4 s"):
            await pool.call(address, REQUEST, 5)
        await pool.close()
        for filler in fillers:
            filler.close()


async def test_one_caller_giving_up_leaves_the_others(start_server: Servers) -> None:
    """Cancelling the call that began to connect does not cancel the connecting."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    first = asyncio.create_task(pool.call(address, REQUEST, 5))
    second = asyncio.create_task(pool.call(address, REQUEST, 5))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).ext == {"n": "1"}
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ in (
        asyncio.CancelledError,
        Command,
    )
    await pool.close()


async def test_a_caller_cancelled_while_the_pool_closes_is_cancelled(
    start_server: Servers,
) -> None:
    """Others that wait for the connection are told that it will not be made."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    first = asyncio.create_task(pool.connect(address))
    second = asyncio.create_task(pool.connect(address))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first, second, closing])
    assert first.cancelled()
    assert isinstance(second.exception(), NotConnected)


async def test_a_pool_whose_close_is_cancelled_keeps_nothing_open(start_server: Servers) -> None:
    """Though another connection is being made at that moment."""
    server, other, pool = await start_server(), await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    await pool.call(address, REQUEST, 5)
    making = asyncio.create_task(pool.connect(f"127.0.0.1:{other.port}"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([making, closing])
    await until(lambda: not server.connections and not other.connections)


@pytest.mark.parametrize("host", ["broker..local", "b" * 64 + ".local", "\0", "\udc80"])
async def test_a_host_that_is_no_name_is_not_connected(host: str) -> None:
    """Whoever catches what calls raise catches this, too."""
    pool = ConnectionPool()
    with pytest.raises((NotConnected, BadAddress)):
        await pool.call(f"{host}:10911", REQUEST, 5)
    await pool.close()


async def test_thousands_giving_up_together_do_not_stop_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers whose time is up while a connection is made cost no more than one alone."""
    pool = ConnectionPool()
    connecting = asyncio.Event()

    async def never(address: str) -> Connection:
        await connecting.wait()
        raise NotConnected(address)

    monkeypatch.setattr(pool, "_make", never)
    callers = [asyncio.create_task(pool.connect("127.0.0.1:1")) for _ in range(20_000)]
    await asyncio.sleep(0)
    began_s = time.process_time()
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    assert time.process_time() - began_s < 2.0
    await pool.close()


async def test_a_closed_pool_refuses(start_server: Servers) -> None:
    """After close there is no new connection, and callers that were connecting are told."""
    server, pool = await start_server(), ConnectionPool()
    address = f"127.0.0.1:{server.port}"
    connecting = asyncio.create_task(pool.call(address, REQUEST, 5))
    await asyncio.sleep(0)
    await pool.close()
    result = (await asyncio.gather(connecting, return_exceptions=True))[0]
    assert isinstance(result, NotConnected)
    with pytest.raises(NotConnected, match="this side is closed"):
        await pool.call(address, REQUEST, 5)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "h:1x"])
async def test_a_bad_address_is_named(address: str) -> None:
    """What is no address is told from a peer that is not there."""
    pool = ConnectionPool()
    with pytest.raises(BadAddress, match="address"):
        await pool.connect(address)
    await pool.close()


async def test_an_idle_connection_is_closed(start_server: Servers) -> None:
    """What nobody uses goes, but not while a call waits on it."""
    limits = NetLimits(idle_timeout_s=0.4, sweep_interval_s=0.05)
    server, pool = await start_server(), ConnectionPool(limits=limits)
    address = f"127.0.0.1:{server.port}"
    waiting = asyncio.create_task(pool.call(address, Command(code=999), 1.5))
    await asyncio.gather(waiting, return_exceptions=True)
    assert pool.get(address) is not None
    await until(lambda: pool.get(address) is None, timeout_s=15)
    await pool.close()


async def test_a_request_nobody_serves_is_answered(start_server: Servers) -> None:
    """The peer hears code 3 instead of waiting for its time-out."""
    replies: list[Command] = []

    def ask_back(connection: Connection, command: Command) -> None:
        async def ask() -> None:
            replies.append(await connection.call(Command(code=12345), 5))

        asking.append(asyncio.ensure_future(ask()))
        connection.send(command.reply())

    asking: list[asyncio.Future[None]] = []
    server, pool = await start_server(ask_back), ConnectionPool()
    await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    await until(lambda: replies)
    assert (replies[0].code, replies[0].remark) == (3, " request type 12345 not supported")
    await pool.close()


async def test_tls_with_certificates_on_both_sides(start_server: Servers) -> None:
    """A server that asks for certificates serves who has one, and nobody else."""
    server = await start_server(tls=mutual_tls())
    address = f"127.0.0.1:{server.port}"
    known = TlsClientSettings(
        cert_path=str(CERTS / "client.pem"),
        key_path=str(CERTS / "client.key"),
        verify_server=True,
        trust_cert_path=str(CERTS / "ca.pem"),
        check_hostname=True,
    )
    pool = ConnectionPool(tls=known)
    assert (await pool.call(address, REQUEST, 5)).ext == {"n": "1"}
    await pool.close()
    for settings in (TlsClientSettings(), None):
        pool = ConnectionPool(tls=settings)
        with pytest.raises(Exception, match=r"."):
            await pool.call(address, REQUEST, 2)
        await pool.close()
