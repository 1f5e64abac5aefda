"""Users who show certificates: served without a signature, and refused like any other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from support.asker import BODY, BROKER
from support.features.access import ROOT, Asked, AskingUser, asking_broker, signed
from support.servers.tls_certs import CERTS, Pair

from aerobee.broker.features.access.connection import AskingConnection
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.net.access import guard as guards
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.tls import TlsClientSettings

DENIED: Final = ResponseCode.NO_PERMISSION
USERS: Final = "CN:ann=ann;CN:cheryl=carl"


def pairs(folder: Path) -> tuple[dict[str, Pair], dict[str, Any]]:
    """Make certificates, and the settings of a server that trusts all but a stranger's."""
    made: dict[str, Pair] = {}
    for name in ("ann", "cheryl", "unknown", "old", "stranger"):
        made[name] = Pair(folder, name)
        made[name].write("ann" if name == "old" else name, expired=name == "old")
    trusted = folder / "trusted.pem"
    trusted.write_bytes(b"".join(p.cert.read_bytes() for n, p in made.items() if n != "stranger"))
    return made, {
        "tls_server_mode": "permissive",
        "tls_server_cert_path": str(CERTS / "server.pem"),
        "tls_server_key_path": str(CERTS / "server.key"),
        "tls_server_auth_client": True,
        "tls_server_need_client_auth": "optional",
        "tls_server_trust_cert_path": str(trusted),
        "certificate_users": USERS,
    }


class Showing(AskingUser):
    """Somebody who shows a certificate and signs nothing."""

    def __init__(self, asked: Asked, tls: TlsClientSettings) -> None:
        super().__init__(asked.live, "")
        self.pool = ConnectionPool(tls=tls)

    async def ask(self, code: int, fields: Any = None, body: Any = b"") -> Command:
        """Send one request as it is."""
        return await self.live.ask(code, fields or {}, body, pool=self.pool)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note who is asked by the guard."""
    names: list[str] = []
    check = guards.Guard.check

    def noting(guard: guards.Guard, *rest: Any) -> str:
        names.append(check(guard, *rest))
        return names[-1]

    with monkeypatch.context() as patched:
        patched.setattr(guards.Guard, "check", noting)
        yield names


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])
async def test_who_shows_a_certificate_needs_no_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, compiled: bool
) -> None:
    """His rights are his user's; what has passed takes the fast path; a signature counts first."""
    made, settings = pairs(tmp_path)
    async with asking_broker(tmp_path, compiled_fast_path=compiled, **settings) as asked:
        await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        ann = Showing(asked, made["ann"].client())
        try:
            for _ in range(2):
                assert (await ann.send("t")).code == 0
            assert (await ann.pull("t", "g")).code == 0
            with watched(monkeypatch) as names:
                for _ in range(3):
                    assert (await ann.send("t")).code == 0
                    assert (await ann.pull("t", "g")).code == 0
                assert names == []
                refused = await ann.send("u")
                assert (refused.code, names) == (DENIED, [])
            assert "User:ann has no permission" in (refused.remark or "")
            assert (await ann.ask(Code.AUTH_LIST_USER)).code == DENIED
            ext = signed(ROOT, {})
            assert (await asked.live.ask(Code.AUTH_LIST_USER, ext, pool=ann.pool)).code == 0
            ext = signed(ROOT, {}, secret="guessed")
            assert (await asked.live.ask(Code.AUTH_LIST_USER, ext, pool=ann.pool)).code == DENIED
            server = asked.live.broker.context.front.ports._servers[0]
            known = [c for c in server.connections if isinstance(c, AskingConnection)]
            assert "ann" in {connection.identity for connection in known}
            off = UserInfo(user_status="disable")
            await asked.root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, off)
            assert (await ann.send("t")).remark == "User:ann is disabled."
            await asked.root.ask(Code.AUTH_DELETE_USER, {"username": "ann"})
            assert (await ann.pull("t", "g")).remark == "User:ann is not found."
        finally:
            await ann.pool.close()


async def test_other_certificates_are_nobodys(tmp_path: Path) -> None:
    """Absent, of no user that is known, of no authority, ended: nobody is served by them."""
    made, settings = pairs(tmp_path)
    async with asking_broker(tmp_path, **settings) as asked:
        for tls, remark in (
            (TlsClientSettings(), "username cannot be null."),
            (made["unknown"].client(), "username cannot be null."),
            (made["cheryl"].client(), "User:carl is not found."),
        ):
            user = Showing(asked, tls)
            reply = await user.send("t")
            assert (reply.code, reply.remark) == (DENIED, remark)
            assert (await asked.live.ask(Code.AUTH_LIST_USER, signed(ROOT, {}), pool=user.pool)
                    ).code == 0  # fmt: skip
            await user.pool.close()
        for name in ("stranger", "old"):
            user = Showing(asked, made[name].client())
            with pytest.raises(Unavailable):
                await user.send("t")
            await user.pool.close()
        assert (await asked.live.ask(Code.GET_BROKER_CONFIG)).remark == "username cannot be null."


async def test_a_nameserver_knows_certificates_too(tmp_path: Path) -> None:
    """A broker may register by one."""
    made, settings = pairs(tmp_path)
    inner = '{"accessKey":"ann","secretKey":"a secret"}'
    server = NameServer(
        NamesrvSettings(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json",
            authentication_enabled=True, authorization_enabled=True,
            inner_client_authentication_credentials=inner, **settings,
        )
    )  # fmt: skip
    await server.start()
    try:
        for name, code in (("ann", 0), ("unknown", DENIED)):
            pool = ConnectionPool(tls=made[name].client())
            request = Command(Code.REGISTER_BROKER, dict(BROKER), BODY)
            reply = await pool.call(f"127.0.0.1:{server.port}", request, 10.0)
            assert reply.code == code, name
            await pool.close()
    finally:
        await server.stop()
