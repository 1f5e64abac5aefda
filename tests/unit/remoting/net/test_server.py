"""The listening side: TLS by the first byte, limits of connections, and orderly endings."""

import asyncio
import errno
import socket
import ssl

import pytest
from support.raw_peer import RawPeer
from support.servers.net_servers import Servers
from support.servers.tls_certs import CERTS
from support.waiting import until

from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.server import open_listener, raise_open_files_limit
from aerobee.remoting.net.tls import TlsError, TlsMode, TlsSettings

REQUEST = Command(code=1, ext={"n": "1"}, opaque=1)


def server_tls(mode: TlsMode) -> TlsSettings:
    """TLS with the test certificate."""
    return TlsSettings(
        mode=mode, cert_path=str(CERTS / "server.pem"), key_path=str(CERTS / "server.key")
    )


def client_context() -> ssl.SSLContext:
    """A client that trusts the test CA."""
    return ssl.create_default_context(cafile=str(CERTS / "ca.pem"))


@pytest.mark.parametrize("mode", list(TlsMode))
async def test_the_first_byte_tells_tls_from_plain(start_server: Servers, mode: TlsMode) -> None:
    """Each mode serves what it should on the one port, and closes what it should not serve."""
    server = await start_server(tls=server_tls(mode))
    async with await RawPeer.connect(server.port) as plain:
        await plain.send(encode_frame(REQUEST))
        if mode is TlsMode.ENFORCING:
            assert await plain.closed()
        else:
            assert (await plain.read()).opaque == 1
    if mode is TlsMode.DISABLED:
        with pytest.raises(OSError):
            await RawPeer.connect(server.port, tls=client_context())
    else:
        async with await RawPeer.connect(server.port, tls=client_context()) as secret:
            assert (await secret.request(REQUEST)).opaque == 1


async def test_a_large_body_goes_through_tls(start_server: Servers) -> None:
    """TLS and frames of many records go together."""
    server = await start_server(tls=server_tls(TlsMode.ENFORCING))
    body = bytes(range(256)) * 20_000
    async with await RawPeer.connect(server.port, tls=client_context()) as peer:
        await peer.send(encode_frame(Command(code=1, body=body)))
        assert (await peer.read(timeout_s=20)).body == body


async def test_permissive_without_a_certificate_serves_plain(start_server: Servers) -> None:
    """The default of RocketMQ's settings needs no certificate."""
    server = await start_server(tls=TlsSettings())
    async with await RawPeer.connect(server.port) as peer:
        assert (await peer.request(REQUEST)).opaque == 1


async def test_enforcing_without_a_certificate_is_refused(start_server: Servers) -> None:
    """The error names the settings that are missing."""
    with pytest.raises(TlsError, match=r"tls\.server\.certPath"):
        await start_server(tls=TlsSettings(mode=TlsMode.ENFORCING))


async def test_a_connection_without_a_first_byte_is_dropped(start_server: Servers) -> None:
    """Who speaks TLS does so at once; where nobody else is served, the silent ones go soon."""
    limits = NetLimits(handshake_timeout_s=0.2)
    server = await start_server(limits=limits, tls=server_tls(TlsMode.ENFORCING))
    async with await RawPeer.connect(server.port) as silent:
        assert await silent.closed()
    assert server.statistics().closed == {"no handshake": 1}


@pytest.mark.parametrize("tls", [TlsSettings(), server_tls(TlsMode.PERMISSIVE)])
async def test_a_plain_client_may_connect_long_before_it_asks(
    start_server: Servers, tls: TlsSettings
) -> None:
    """That TLS is offered takes no time from those who do not want it: theirs is the idle one."""
    limits = NetLimits(handshake_timeout_s=0.1, idle_timeout_s=2.0)
    server = await start_server(limits=limits, tls=tls)
    async with await RawPeer.connect(server.port) as early, await RawPeer.connect(server.port) as s:
        await asyncio.sleep(0.4)  # four times the time that a handshake has
        assert (await early.request(REQUEST)).opaque == 1
        assert await s.closed()
        assert server.statistics().closed == {"idle": 1}


async def test_a_look_whether_somebody_listens_is_no_failed_handshake(
    start_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """Load balancers connect and leave, every few seconds: nothing is counted, nothing is told."""
    server = await start_server(tls=TlsSettings())
    for _ in range(20):
        async with await RawPeer.connect(server.port):
            pass
    await until(lambda: server.statistics().accepted_total == 20)
    async with await RawPeer.connect(server.port) as peer:
        assert (await peer.request(REQUEST)).opaque == 1
    assert server.statistics().closed == {}
    assert "handshake" not in caplog.text


async def test_half_a_handshake_is_dropped(start_server: Servers) -> None:
    """One that begins a TLS handshake and stops is closed, and others are served."""
    limits = NetLimits(handshake_timeout_s=0.3)
    server = await start_server(limits=limits, tls=server_tls(TlsMode.PERMISSIVE))
    async with await RawPeer.connect(server.port) as half:
        await half.send(b"\x16\x03\x01\x02\x00\x01")
        async with await RawPeer.connect(server.port) as plain:
            assert (await plain.request(REQUEST)).opaque == 1
        assert await half.closed()
    await until(lambda: server.statistics().closed.get("no handshake") == 1)


async def test_a_silent_connection_is_closed(start_server: Servers) -> None:
    """Nothing heard for the idle time ends a connection; one that speaks stays."""
    server = await start_server(limits=NetLimits(idle_timeout_s=1.5, sweep_interval_s=0.05))
    async with (
        await RawPeer.connect(server.port) as silent,
        await RawPeer.connect(server.port) as busy,
    ):
        closing = asyncio.create_task(silent.closed(timeout_s=15))
        while not closing.done():
            assert (await busy.request(REQUEST)).opaque == 1
            await asyncio.sleep(0.02)
        assert closing.result()
        assert (await busy.request(REQUEST)).opaque == 1
    assert server.statistics().closed["idle"] == 1


async def test_connections_are_limited(start_server: Servers) -> None:
    """One too many is closed as it comes; when another leaves, there is room again."""
    server = await start_server(limits=NetLimits(connections_max=2))
    peers = [await RawPeer.connect(server.port) for _ in range(2)]
    for peer in peers:
        await peer.request(REQUEST)
    async with await RawPeer.connect(server.port) as refused:
        assert await refused.closed()
    assert server.statistics().refused_total == 1
    peers[0].writer.close()
    await until(lambda: len(server.connections) == 1)
    async with await RawPeer.connect(server.port) as admitted:
        assert (await admitted.request(REQUEST)).opaque == 1
    peers[1].writer.close()


async def test_without_file_descriptors_accepting_pauses(
    start_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """The server waits instead of spinning, says so, and goes on when it can."""
    server = await start_server(limits=NetLimits(accept_pause_s=0.1))
    listener, calls = server._listener, list[int]()

    class Exhausted:
        """A listener that fails three times as accept(2) does without descriptors."""

        def __getattr__(self, name: str) -> object:
            return getattr(listener, name)

        def accept(self) -> tuple[socket.socket, object]:
            calls.append(1)
            if len(calls) <= 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return listener.accept()

    server._listener = Exhausted()  # type: ignore[assignment]
    async with await RawPeer.connect(server.port) as peer:
        assert (await peer.request(REQUEST)).opaque == 1
    assert len(calls) < 20
    assert "ulimit -n" in caplog.text


async def test_thousands_of_idle_connections_cost_little(start_server: Servers) -> None:
    """Two thousand peers that say nothing leave another one's requests as fast as before."""
    raise_open_files_limit(8192)
    server = await start_server(tls=server_tls(TlsMode.PERMISSIVE))
    idle: list[socket.socket] = []
    loop = asyncio.get_running_loop()
    for _ in range(2000):
        each = socket.socket()
        each.setblocking(False)
        await loop.sock_connect(each, ("127.0.0.1", server.port))
        idle.append(each)
    for each in idle[::2]:  # half of them get as far as half a frame
        each.send(b"\x00\x00\x01")
    await until(lambda: len(server.connections) == 1000)
    async with await RawPeer.connect(server.port) as peer:
        async with asyncio.timeout(5):
            for _ in range(200):
                await peer.request(REQUEST)
    for each in idle:
        each.close()
    await until(lambda: not server.connections)


async def test_closing_sends_what_is_waiting(start_server: Servers) -> None:
    """A reply that was on its way when the server stopped still arrives."""
    body = bytes(8_000_000)
    server = await start_server(
        lambda connection, command: connection.send(command.reply(0, {}, body))
    )
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(REQUEST))
        await until(lambda: server.budget.unsent_bytes)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        assert len((await peer.read()).body) == len(body)
        await closing
    assert not server.connections
    with pytest.raises(OSError, match=r"."):
        await RawPeer.connect(server.port)


async def test_closing_does_not_wait_for_ever(start_server: Servers) -> None:
    """A peer that does not read what is waiting for it is cut off in the end."""
    server = await start_server(
        lambda connection, command: connection.send(command.reply(0, {}, bytes(8_000_000))),
        limits=NetLimits(close_timeout_s=0.2),
    )
    async with await RawPeer.connect(server.port) as peer:
        await peer.send(encode_frame(REQUEST))
        await until(lambda: server.budget.unsent_bytes)
        async with asyncio.timeout(5):
            await server.close()


async def test_both_families_share_a_port(start_server: Servers) -> None:
    """An empty host serves IPv4 and IPv6, and IPv4 peers keep their IPv4 address."""
    server = await start_server(host="")
    async with await RawPeer.connect(server.port) as four:
        await four.request(REQUEST)
        assert {each.remote_host[0] for each in server.connections} == {"127.0.0.1"}
    async with await RawPeer.connect(server.port, host="::1") as six:
        await six.request(REQUEST)
        await until(lambda: len(server.connections) == 1)
        connection = next(iter(server.connections))
        assert connection.remote.startswith("[::1]:")
        assert connection.host_bytes[:16] == bytes(15) + b"\x01"
        assert len(connection.host_bytes) == 20


async def test_a_taken_port_is_named(start_server: Servers) -> None:
    """The error says which address cannot be had."""
    server = await start_server()
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        await open_listener("127.0.0.1", server.port)


@pytest.mark.parametrize("host", ["foo.invalid", "x" * 70 + ".example", "192.0.2.1"])
async def test_an_address_that_is_none_of_ours_is_named(host: str) -> None:
    """Whether the look-up fails or the binding."""
    with pytest.raises(OSError, match=f"cannot listen on {host}:9876: .") as refused:
        await open_listener(host, 9876)
    assert refused.value.strerror and refused.value.strerror.startswith("cannot listen on")
