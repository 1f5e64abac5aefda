"""Who is let in, and as what: users of the cluster's access control, `admin`, or this machine."""

import hmac
import ipaddress
import logging
from collections.abc import Mapping
from typing import Final

from aerobee.admin.calls import AdminCalls, read_settings
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import BrokerRefused
from aerobee.console.door.sessions import Viewer
from aerobee.console.roles import ConsoleRole
from aerobee.console.settings import ConsoleSettings
from aerobee.console.sights import Sights
from aerobee.remoting.bodies import AclInfo, UserInfo, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.console_keys import LOOPBACK
from aerobee.remoting.errors import AerobeeError, ProtocolError, Unavailable
from aerobee.remoting.headers.access import SubjectRequest, UserRequest
from aerobee.remoting.net.access.credentials import SessionCredentials

log = logging.getLogger(__name__)

ADMIN: Final = "admin"
"""The user whose password is the setting `consolePassword`."""
NAME_CHARS_MAX: Final = 255
SECRET_CHARS_MAX: Final = 1024
PROOF_CODE: Final = RequestCode.GET_BROKER_CONFIG
"""What a broker is asked to tell whether a secret is right; it needs Get on the cluster."""
BROKERS_ASKED_MAX: Final = 8
WRITES: Final = frozenset({"all", "create", "update", "delete"})
_WRONG: Final = "wrong name or password"


class LoginRefused(AerobeeError):
    """Somebody is not let in; the text says why, and nothing that he does not know already."""


class Logins:
    """Decides who is let in."""

    def __init__(self, settings: ConsoleSettings, sights: Sights) -> None:
        self._sights = sights
        self._password = settings.console_password
        self._role_max = settings.role_max
        self.is_on_loopback = settings.is_on_loopback
        self.lets_machine_in = settings.is_on_loopback and not (
            self._password or sights.own is not None or settings.console_behind_tls
        )
        """Whether who comes from this machine is asked nothing."""

    def local(self, peer: str | None, host: str, *, is_forwarded: bool) -> Viewer | None:
        """Return who comes from this machine, None where that is not enough.

        `host` is the name by which the browser calls the console: a page of elsewhere that has its
        own name lead here is not let in, and nobody whom a proxy brings.
        """
        if not self.lets_machine_in or is_forwarded or not _is_loopback(peer):
            return None
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name.strip("[]").lower() not in LOOPBACK:
            return None
        return Viewer("this machine", self._role_max, is_local=True)

    async def viewer(self, name: str, secret: str) -> Viewer:
        """Return who has this name and secret; raises LoginRefused, Unavailable."""
        if not (0 < len(name) <= NAME_CHARS_MAX and 0 < len(secret) <= SECRET_CHARS_MAX):
            raise LoginRefused(_WRONG)
        if name == ADMIN and self._is_password(secret):
            return Viewer(ADMIN, self._role_max, self._sights.own)
        credentials = SessionCredentials(name, secret)
        async with self._sights.admin(credentials) as admin:
            address = await self._prove(admin)
            role = await _role(admin, address, name)
        return Viewer(name, min(role, self._role_max), credentials)

    def _is_password(self, secret: str) -> bool:
        known = self._password.encode()
        return bool(known) and hmac.compare_digest(secret.encode(), known)

    async def _masters(self, admin: AdminCalls) -> list[BrokerEntry]:
        """List the brokers that may be asked; of a nameserver that asks in the user's name."""
        try:
            return await admin.masters_of()
        except BrokerRefused as error:
            if error.code != ResponseCode.NO_PERMISSION:
                raise
            raise _refused(error, "Cluster:* of the nameserver") from None

    async def _prove(self, admin: AdminCalls) -> str:
        """Return the address of a broker that holds the secret for right.

        One that would have answered without it says nothing; so does one that looks at names alone.
        """
        nobody = self._sights.of(None).admin
        trouble: AerobeeError | None = None
        asked_nobody = 0
        for master in (await self._masters(admin))[:BROKERS_ASKED_MAX]:
            if nobody.silence(master.address) is not None:
                continue
            try:
                await nobody.ask_noting(
                    master.address, lambda each: nobody.connections.request(each, PROOF_CODE)
                )
                asked_nobody += 1
                continue
            except BrokerRefused as error:
                if error.code != ResponseCode.NO_PERMISSION:
                    trouble = error
                    continue
            except Unavailable as error:
                trouble = error
                continue
            try:
                reply = await admin.connections.request(master.address, PROOF_CODE)
            except BrokerRefused as error:
                raise _refused(error, f"Cluster:{master.cluster}") from None
            except Unavailable as error:
                trouble = error
                continue
            try:
                settings = read_settings(master.address, reply.body)
            except ProtocolError as error:
                trouble = error
                continue
            if _asks_for_secrets(settings):
                return master.address
            asked_nobody += 1
        if asked_nobody:
            raise LoginRefused(
                f"{_WRONG}. This cluster has no users: its brokers ask nobody who he is"
                " (authenticationEnabled=false). There is the user admin, whose password is"
                " consolePassword, where that is set"
            )
        raise Unavailable(f"no broker could be asked whether the password is right: {trouble}")


def _refused(error: BrokerRefused, resource: str) -> LoginRefused:
    """Return what to tell whom a server refused: who was recognized hears what he lacks."""
    if "has no permission to access" in (error.remark or ""):
        return LoginRefused(
            f"{error.address} says: {error.remark} The console takes the right Get on {resource}"
        )
    return LoginRefused(_WRONG)


def _is_loopback(peer: str | None) -> bool:
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _asks_for_secrets(settings: Mapping[str, str]) -> bool:
    """Whether a broker with these settings looked at the signature of who asked for them.

    With authorization alone it believes any name; and codes of its whitelist nobody signs.
    """
    open_codes = {word.strip() for word in settings.get("authenticationWhitelist", "").split(",")}
    return settings.get("authenticationEnabled") == "true" and str(PROOF_CODE) not in open_codes


async def _role(admin: AdminCalls, address: str, name: str) -> ConsoleRole:
    """Tell what to offer somebody by his own entry and policies, a reader's where he sees none."""
    try:
        header = UserRequest(username=name)
        reply = await admin.connections.request(address, RequestCode.AUTH_GET_USER, header)
        if reply.body and (decode_body(UserInfo, reply.body).user_type or "").lower() == "super":
            return ConsoleRole.ADMIN
        of_user = SubjectRequest(subject=f"User:{name}")
        reply = await admin.connections.request(address, RequestCode.AUTH_GET_ACL, of_user)
    except BrokerRefused:
        return ConsoleRole.READER
    return role_of(decode_body(AclInfo, reply.body)) if reply.body else ConsoleRole.READER


def role_of(acl: AclInfo) -> ConsoleRole:
    """Return the role of a user with these policies.

    Who may change the cluster is an admin, who may change topics or groups an operator.
    """
    role = ConsoleRole.READER
    for policy in acl.policies:
        for entry in policy.entries:
            actions = {action.lower() for action in entry.actions}
            if entry.decision.lower() != "allow" or not actions & WRITES:
                continue
            kind = entry.resource.partition(":")[0].lower()
            if kind in ("*", "cluster") and actions & {"all", "update"}:
                return ConsoleRole.ADMIN
            role = ConsoleRole.OPERATOR
    return role
