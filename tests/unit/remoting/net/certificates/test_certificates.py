"""Certificates while servers and clients run: made, renewed, expired, wrong, and floods of them."""

import asyncio
import logging
import ssl
import time
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.net_servers import Servers
from support.servers.tls_certs import CERTS, Pair, made, mutual_tls, replace
from support.waiting import until

from aerobee.remoting.command import Command
from aerobee.remoting.errors import ConnectionLost, NotConnected, Unavailable
from aerobee.remoting.net.certificates.sides import ServerTls
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.tls import (
    ClientAuth,
    TlsClientSettings,
    TlsError,
    TlsMode,
    TlsSettings,
)

pytest.importorskip("cryptography", reason="makes the certificates of these tests")

REQUEST = Command(code=1, ext={"n": "1"}, opaque=1)
SILENT = Command(code=999, opaque=2)
QUICK = NetLimits(sweep_interval_s=0.02)
CURIOUS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CURIOUS.check_hostname, CURIOUS.verify_mode = False, ssl.CERT_NONE


async def shown(port: int) -> bytes:
    """The certificate that a server shows now, as DER."""
    async with await RawPeer.connect(port, tls=CURIOUS) as peer:
        assert (await peer.request(REQUEST)).opaque == 1
        found: bytes = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found


def der(pem: bytes) -> bytes:
    """A certificate's bytes."""
    return ssl.PEM_cert_to_DER_cert(pem.decode())


async def test_a_server_without_a_certificate_makes_one(start_server: Servers) -> None:
    """Who only wants TLS gets it on the first try, and the same certificate every time."""
    server = await start_server(tls=TlsSettings())
    async with await RawPeer.connect(server.port) as plain:
        assert (await plain.request(REQUEST)).opaque == 1
    both = await asyncio.gather(*(shown(server.port) for _ in range(5)))
    assert len(set(both)) == 1
    pool = ConnectionPool(tls=TlsClientSettings())
    assert (await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)).ext == {"n": "1"}
    await pool.close()


async def test_connections_over_tls_are_looked_after(start_server: Servers) -> None:
    """They count, are closed when they are idle, and end with the server."""
    limits = NetLimits(idle_timeout_s=0.4, sweep_interval_s=0.05)
    server = await start_server(tls=TlsSettings(), limits=limits)
    async with await RawPeer.connect(server.port, tls=CURIOUS) as peer:
        assert (await peer.request(REQUEST)).opaque == 1
        await until(lambda: server.statistics().connections == 1)
        assert await peer.closed(timeout_s=15)
    assert server.statistics().closed["idle"] == 1
    async with await RawPeer.connect(server.port, tls=CURIOUS) as peer:
        assert (await peer.request(REQUEST)).opaque == 1
        await server.close()
        assert await peer.closed()


async def test_it_proves_nothing(start_server: Servers) -> None:
    """A client that verifies does not take it, and says why."""
    server = await start_server(tls=TlsSettings())
    pool = ConnectionPool(tls=TlsClientSettings(verify_server=True))
    with pytest.raises(NotConnected, match="its certificate is refused: self-signed"):
        await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    await pool.close()


async def test_without_the_test_mode_there_is_none(
    start_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """tls.test.mode.enable=false: plain connections only; both sides say what was the matter."""
    server = await start_server(tls=TlsSettings(test_mode=False))
    async with await RawPeer.connect(server.port) as plain:
        assert (await plain.request(REQUEST)).opaque == 1
    pool = ConnectionPool(tls=TlsClientSettings())
    with pytest.raises(NotConnected, match="it may serve plain ones only"):
        await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    await pool.close()
    assert "a TLS handshake, which is not served here" in caplog.text


async def test_a_renewed_certificate_is_shown_without_a_restart(
    start_server: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New connections see it, those that stand go on; one line says so."""
    caplog.set_level(logging.INFO)
    pair = Pair(tmp_path)
    pair.write("first")
    server = await start_server(tls=pair.server(), limits=QUICK)
    before = der(pair.cert.read_bytes())
    async with await RawPeer.connect(server.port, tls=CURIOUS) as standing:
        assert await shown(server.port) == before
        pair.write("second")
        after = der(pair.cert.read_bytes())
        await until(lambda: "certificates loaded anew" in caplog.text)
        assert await shown(server.port) == after != before
        assert (await standing.request(REQUEST)).opaque == 1
    assert caplog.text.count("certificates loaded anew") == 1


async def test_a_renewed_certificate_of_ours_is_shown_too(
    start_server: Servers, tmp_path: Path
) -> None:
    """A pool's next connection has the client's new certificate."""
    pair, trusted = Pair(tmp_path), tmp_path / "trust.pem"
    pair.write("first")
    old = pair.cert.read_bytes()
    cert, key = made("second")
    trusted.write_bytes(old + cert)
    mode = TlsSettings(
        mode=TlsMode.ENFORCING,
        cert_path=str(CERTS / "server.pem"),
        key_path=str(CERTS / "server.key"),
        client_auth=ClientAuth.REQUIRE,
        verify_client=True,
        trust_cert_path=str(trusted),
    )
    server = await start_server(tls=mode)
    address = f"127.0.0.1:{server.port}"
    pool = ConnectionPool(tls=pair.client(), limits=QUICK)

    async def client_shown() -> bytes:
        await pool.call(address, REQUEST, 5)
        await until(lambda: server.connections)
        (connection,) = server.connections
        found: bytes = connection.transport.get_extra_info("ssl_object").getpeercert(True)
        return found

    assert await client_shown() == der(old)
    replace(pair.cert, cert)
    replace(pair.key, key)
    for _ in range(200):
        pool.drop(address, "to make another")
        await until(lambda: not server.connections)
        if await client_shown() == der(cert):
            break
        await asyncio.sleep(0.05)
    assert await client_shown() == der(cert)
    await pool.close()


async def test_an_expired_certificate_is_refused_by_name(
    start_server: Servers, tmp_path: Path
) -> None:
    """By a client that verifies; the server's log says that it was refused."""
    pair = Pair(tmp_path)
    pair.write("old", expired=True)
    server = await start_server(tls=pair.server())
    settings = TlsClientSettings(verify_server=True, trust_cert_path=str(pair.cert))
    pool = ConnectionPool(tls=settings)
    with pytest.raises(NotConnected, match="its certificate is refused: certificate has expired"):
        await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    await pool.close()
    await until(lambda: server.statistics().closed.get("no handshake") == 1)


def test_a_server_knows_when_its_certificate_ends(tmp_path: Path) -> None:
    """Also of one that has ended, one that is renewed, and one that is shown to known clients."""
    day_s, pair, now_s = 86400, Pair(tmp_path), time.time()
    pair.write("here", expired=True)
    ended = ServerTls(pair.server()).ends_s()
    assert ended is not None and abs(ended - now_s + day_s) < 60
    pair.write("here")
    server = ServerTls(pair.server())
    ends = server.ends_s()
    assert ends is not None and abs(ends - now_s - 30 * day_s) < 60
    assert ServerTls(mutual_tls()).ends_s() is not None
    assert ServerTls(TlsSettings()).ends_s() is None, "nobody can verify one that is made here"
    assert ServerTls(TlsSettings(mode=TlsMode.DISABLED)).ends_s() is None


async def test_who_speaks_plain_to_a_tls_port_is_told_in_the_log(
    start_server: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server cannot answer it in its own words; both sides say what may be the reason."""
    caplog.set_level(logging.INFO)
    pair = Pair(tmp_path)
    pair.write("server")
    server = await start_server(tls=pair.server(TlsMode.ENFORCING))
    pool = ConnectionPool()
    with pytest.raises(ConnectionLost, match="before it said anything: it may want TLS"):
        await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    await pool.close()
    assert "it speaks no TLS, and tls.server.mode is enforcing here" in caplog.text


async def test_who_shows_no_certificate_or_a_wrong_one_is_told(
    start_server: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On both sides; a connection that has worked is lost without such guesses."""
    caplog.set_level(logging.INFO)
    server = await start_server(tls=mutual_tls())
    pair = Pair(tmp_path)
    pair.write("stranger")
    for settings in (TlsClientSettings(), pair.client()):
        pool = ConnectionPool(tls=settings)
        with pytest.raises(Unavailable, match="a certificate"):
            await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
        await pool.close()
    assert "peer did not return a certificate" in caplog.text
    assert "certificate verify failed" in caplog.text
    server = await start_server()
    pool = ConnectionPool()
    await pool.call(f"127.0.0.1:{server.port}", REQUEST, 5)
    waiting = asyncio.create_task(pool.call(f"127.0.0.1:{server.port}", SILENT, 5))
    await until(lambda: server.connections)
    (connection,) = server.connections
    connection.transport.abort()
    with pytest.raises(ConnectionLost) as lost:
        await waiting
    assert "certificate" not in str(lost.value)
    await pool.close()


async def test_half_handshakes_keep_nobody_out(start_server: Servers) -> None:
    """Of many that begin and stop the oldest are cut off, long before their time is up."""
    limits = NetLimits(handshakes_max=5, handshake_timeout_s=60, sweep_interval_s=0.02)
    server = await start_server(tls=TlsSettings(), limits=limits)
    halves = [await RawPeer.connect(server.port) for _ in range(20)]
    for half in halves:
        await half.send(b"\x16\x03\x01\x02\x00\x01")
    await until(lambda: server.statistics().closed.get("handshakes", 0) >= 15)
    assert await shown(server.port)
    assert sum([await half.closed() for half in halves[:10]]) == 10
    for half in halves:
        half.writer.close()


def test_half_a_setting_is_refused() -> None:
    """A certificate without its key, or the other way round, is no plain server."""
    for half in (TlsSettings(cert_path="c.pem"), TlsSettings(key_path="k.pem")):
        with pytest.raises(TlsError, match=r"needs tls\.server\.certPath and tls\.server\.keyPath"):
            ServerTls(half)
    assert "secret" not in repr(TlsSettings(key_password="secret"))
    assert "secret" not in repr(TlsClientSettings(key_password="secret"))
