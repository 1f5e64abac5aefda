"""What could destroy or expose is not changed by whoever reaches the port."""

from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import live_broker

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.complaints import TOLD_MAX
from aerobee.remoting.config.settings import SettingsError, Trait
from aerobee.remoting.net.admin_networks import is_trusted
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits

DANGEROUS = {
    "fileReservedTime": "1",
    "deleteWhen": "0;1;2;3",
    "diskMaxUsedSpaceRatio": "10",
    "diskSpaceCleanForciblyRatio": "10",
    "storePathRootDir": "/elsewhere",
    "flushDiskType": "SYNC_FLUSH",
    "bindAddress": "0.0.0.0",
    "httpHost": "0.0.0.0",
    "tls.server.mode": "disabled",
    "tls.server.keyPassword": "x",
    "namesrvAddr": "10.9.9.9:9876",
    "brokerIP1": "10.9.9.9",
    "adminAllowedNetworks": "0.0.0.0/0",
    "messageDelayLevel": "1s",  # what waits would come at once
    "validateSystemTopicWhenUpdateTopic": "false",  # system topics could be deleted
    "refuseNameInUse": "true",  # the next start could be refused
}


class Ends:
    """A transport with the two addresses of its socket."""

    def __init__(self, peer: str, own: str) -> None:
        self._names = {"peername": (peer, 40000), "sockname": (own, 10911)}

    def get_extra_info(self, name: str) -> Any:
        """Return one end."""
        return self._names[name]

    def set_write_buffer_limits(self, **limits: int) -> None:
        """Take what a connection sets."""


def connection(peer: str, own: str = "10.1.1.1") -> Connection:
    """Return a connection between two addresses."""
    made = Connection(lambda *args: None, NetLimits())
    made.connection_made(Ends(peer, own))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("peer", "allowed", "trusted"),
    [
        ("127.0.0.1", "", True),
        ("127.8.8.8", "", True),
        ("::1", "", True),
        ("::ffff:127.0.0.1", "", True),
        ("10.1.1.1", "", True),  # its own address: the same machine
        ("10.1.1.2", "", False),
        ("::ffff:10.1.1.2", "", False),
        ("fe80::1%eth0", "", False),
        ("10.1.1.2", "10.1.0.0/16", True),
        ("::ffff:10.1.1.2", "10.1.0.0/16", True),
        ("10.2.1.2", "10.1.0.0/16; fd00::/8", False),
        ("fd00::7", "10.1.0.0/16; fd00::/8", True),
        ("127.0.0.1", "10.1.0.0/16", True),
        ("127.0.0.1", "none", False),
        ("10.1.1.1", "none", False),
        ("10.1.1.2", "none;10.1.1.2", True),
    ],
)
async def test_who_is_trusted(peer: str, allowed: str, trusted: bool) -> None:
    """This machine, and the networks that are named; with none, these alone."""
    assert is_trusted(connection(peer), allowed) is trusted


def test_a_network_that_is_none_is_refused() -> None:
    """A typing error must not open, nor shut, what it did not mean."""
    for bad in ("10.0.0.0/33", "10.0.0.1/8", "everybody"):
        with pytest.raises(SettingsError, match="adminAllowedNetworks cannot be"):
            BrokerSettings.load(options={"adminAllowedNetworks": bad}, environ={})


async def test_a_stranger_cannot_change_what_could_destroy(tmp_path: Path) -> None:
    """Not even beside a harmless key; the refusal says from where it would be taken."""
    async with live_broker(tmp_path, admin_allowed_networks="none") as live:
        before = live.broker.settings
        for key, value in DANGEROUS.items():
            body = f"traceOn=false\n{key}={value}\n".encode()
            reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            assert reply.code == ResponseCode.NO_PERMISSION
            assert reply.remark is not None and reply.remark.startswith(f"{key} could destroy")
            assert "127.0.0.1" in reply.remark and "adminAllowedNetworks" in reply.remark
            assert live.broker.settings is before


async def test_a_stranger_who_is_refused_does_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first refusals of a minute are told."""
    async with live_broker(tmp_path, admin_allowed_networks="none") as live:
        for _ in range(3 * TOLD_MAX):
            await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=1\n")
    told = [line for line in caplog.messages if line.startswith("settings_change_refused")]
    assert len(told) == TOLD_MAX


async def test_a_stranger_may_change_the_rest(tmp_path: Path) -> None:
    """And send values that are in force already, as tools do that write back all they have read."""
    async with live_broker(tmp_path, admin_allowed_networks="none") as live:
        for body in (b"traceOn=false\n", b"brokerPermission=4\nfileReservedTime=72\n"):
            reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            assert reply.code == ResponseCode.SUCCESS, reply.remark
        assert live.broker.settings.broker_permission == 4


async def test_this_machine_may(tmp_path: Path) -> None:
    """An operator with a shell there could edit the file as well."""
    async with live_broker(tmp_path) as live:
        reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=1\n")
        assert reply.code == ResponseCode.SUCCESS
        assert live.broker.settings.file_reserved_time == 1


def test_every_key_of_tls_and_every_secret_is_guarded() -> None:
    """Also those that are added later."""
    guarded = BrokerSettings.having(Trait.GUARDED)
    for name, key in BrokerSettings.keys().items():
        if key.startswith("tls.") or "password" in key.lower():
            assert name in guarded


async def test_secrets_are_shown_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by code 26, nor in the log, nor by an error that names what was wrong."""
    async with live_broker(tmp_path, tls_server_key_password="geheim") as live:
        shown = await live.ask(RequestCode.GET_BROKER_CONFIG)
        await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"tls.server.keyPassword=geheimer\n")
        command = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"tls.server.mode=geheimnis\n")
        refused = await live.pool.call(live.address, command, 5.0)
    assert b"geheim" not in bytes(shown.body)
    assert refused.remark is not None and "(changed while it runs)" in refused.remark
    assert "geheim" not in caplog.text
