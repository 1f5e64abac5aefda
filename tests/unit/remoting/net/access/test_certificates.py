"""Whom a certificate shows, and how long a connection is his."""

import time
from typing import Any

import pytest

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.net.access.certificates import (
    ENDED,
    ShownIdentity,
    read_certificate_users,
    user_of,
)
from aerobee.remoting.net.connection import Connection

SHOWN = {
    "subject": ((("organizationName", "us"),), (("commonName", "orders"),)),
    "subjectAltName": (
        ("DNS", "a.example.com"), ("DNS", "b.example.com"),
        ("URI", "spiffe://us/x=1"), ("email", "ann@example.com"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("", ""),
        ("CN:orders=ann", "ann"),
        ("cn: orders = ann ;", "ann"),
        ("CN:other=bob;CN:orders=ann", "ann"),
        ("CN:*", "orders"),
        ("CN:orders=ann;CN:*", "ann"),
        ("DNS:b.example.com=bob", "bob"),
        ("DNS:*", ""),
        ("URI:spiffe://us/x=1=carl", "carl"),
        ("URI:*", "spiffe://us/x=1"),
        ("EMAIL:*", "ann@example.com"),
        ("DNS:orders=ann", ""),
        ("DNS:*;CN:*", "orders"),
        ("DNS:example.com=ann", ""),
    ],
)
def test_whom_a_certificate_shows(text: str, user: str) -> None:
    """The first line that speaks of it; of several names of a kind * means none."""
    assert user_of(SHOWN, read_certificate_users(text)) == user


def test_a_certificate_without_names_shows_nobody() -> None:
    """Two common names are one too many for *, as are none at all."""
    users = read_certificate_users("CN:*;DNS:*")
    assert user_of({}, users) == ""
    two = {"subject": ((("commonName", "a"),), (("commonName", "b"),))}
    assert user_of(two, users) == ""
    assert user_of(two, read_certificate_users("CN:b=bob")) == "bob"


@pytest.mark.parametrize(
    "text", ["orders", "CN", "CN:", "CN:orders", "CN:orders=", "CN:=ann", "CN:*=ann", "IP:1=a"]
)
@pytest.mark.parametrize("settings", [BrokerSettings, NamesrvSettings])
def test_what_names_nobody_is_refused(
    text: str, settings: type[BrokerSettings] | type[NamesrvSettings]
) -> None:
    """With what is allowed."""
    with pytest.raises(SettingsError, match=r"certificateUsers cannot be .*CN:name=user"):
        settings.load(None, {"certificateUsers": text}, {})


def test_certificates_that_nobody_verifies_show_nobody() -> None:
    """A name that anybody can write himself is none."""
    with pytest.raises(SettingsError, match=r"certificateUsers means nothing.*authClient=true"):
        BrokerSettings.load(None, {"certificateUsers": "CN:*"}, {})


class Transport:
    """A connection's end that has shown a certificate."""

    def __init__(self, left_s: float) -> None:
        ends = time.strftime("%b %d %H:%M:%S %Y GMT", time.gmtime(time.time() + left_s))
        self.certificate = SHOWN | {"notAfter": ends}

    def get_extra_info(self, name: str) -> Any:
        """What the transport knows."""
        return self.certificate if name == "peercert" else None


class Shown(Connection):
    """A connection that only notes why it was closed."""

    __slots__ = ("said",)

    def close(self, reason: str = "") -> None:
        """Note why."""
        self.said = reason

    def why(self) -> str:
        """Return why it was closed, "" where it was not."""
        return self.said


async def test_an_identity_ends_with_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it ends while the connection is open; a clock that jumps is seen in an hour."""
    users = read_certificate_users("CN:*")
    connection = Shown(lambda *_: None)
    connection.transport = Transport(-5)  # type: ignore[assignment]
    assert ShownIdentity(connection, users).user == "orders"
    assert connection.said == ENDED
    connection = Shown(lambda *_: None)
    connection.close()
    connection.transport = Transport(7200)  # type: ignore[assignment]
    shown = ShownIdentity(connection, users)
    assert shown._timer is not None and not connection.why()
    now_s = time.time()
    monkeypatch.setattr("aerobee.remoting.net.access.certificates.time.time", lambda: now_s + 7201)
    shown._look()
    assert connection.why() == ENDED and shown._timer is None
    for listener in connection.on_closed:
        listener(connection)
