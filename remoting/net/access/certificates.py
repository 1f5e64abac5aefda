"""Users by the certificates that they show: which name of one is whom, and until when.

A certificate counts where it was verified (`tls.server.authClient`): it says who asks as a
signature does, for every request of its connection that is not signed.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aerobee.remoting.net.connection import Connection

LOOK_INTERVAL_S: Final = 3600.0
"""How late the end of a certificate may be seen where somebody sets the clock meanwhile."""
ENDED: Final = "certificate ended"
ANY: Final = "*"
_COMMON_NAME: Final = "CN"
_KINDS: Final = {"cn": _COMMON_NAME, "dns": "DNS", "uri": "URI", "email": "email"}

Certificate = Mapping[str, Any]
"""What `ssl.SSLSocket.getpeercert` says of one that was verified."""


class CertificateUser(msgspec.Struct, frozen=True):
    """One line of `certificateUsers`: whom a name is; without `user` it is the name itself."""

    kind: str  # CN, or what the `ssl` module calls a kind of subjectAltName
    name: str  # * for any
    user: str = ""

    @classmethod
    def of(cls, text: str) -> "CertificateUser":
        """Read `CN:orders=ann`, or `CN:*`; raises ValueError for what is neither."""
        word, colon, rest = text.partition(":")
        kind = _KINDS.get(word.strip().lower())
        name, equals, user = rest.rpartition("=")
        name, user = (name.strip(), user.strip()) if equals else (rest.strip(), "")
        if kind is None or not colon or not name or bool(equals) != bool(user):
            raise ValueError(f"{text.strip()!r} is none")
        if (name == ANY) == bool(user):
            raise ValueError(f"{text.strip()!r}: a name is a user, and * stands for itself")
        return cls(kind, name, user)


def read_certificate_users(text: str) -> tuple[CertificateUser, ...]:
    """Read all lines, joined by `;`; raises ValueError."""
    return tuple(map(CertificateUser.of, filter(None, map(str.strip, text.split(";")))))


def user_of(certificate: Certificate, users: tuple[CertificateUser, ...]) -> str:
    """Return whom a certificate shows, by the first line that speaks of it; "" for nobody."""
    names = _names(certificate)
    for each in users:
        found = names.get(each.kind, ())
        if each.name == ANY:
            if len(found) == 1:  # of several nobody could say which is meant
                return found[0]
        elif each.name in found:
            return each.user
    return ""


def _names(certificate: Certificate) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for part in certificate.get("subject", ()):
        for kind, name in part:
            if kind == "commonName":
                names.setdefault(_COMMON_NAME, []).append(name)
    for kind, name in certificate.get("subjectAltName", ()):
        names.setdefault(kind, []).append(name)
    return names


class ShownIdentity:
    """Who a connection is by the certificate of its peer; it ends when that does."""

    def __init__(self, connection: Connection, users: tuple[CertificateUser, ...]) -> None:
        certificate = connection.transport.get_extra_info("peercert") if users else None
        self.user = user_of(certificate, users) if certificate else ""
        if certificate and self.user:
            self._connection = connection
            self._ends_s = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
            self._loop = asyncio.get_running_loop()
            self._timer: asyncio.TimerHandle | None = None
            connection.on_closed.append(self._stop)
            self._look()

    def _look(self) -> None:
        left_s = self._ends_s - time.time()
        if left_s > 0:
            self._timer = self._loop.call_later(min(left_s, LOOK_INTERVAL_S), self._look)
        else:
            self._timer = None
            self._connection.close(ENDED)

    def _stop(self, _: Connection) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
