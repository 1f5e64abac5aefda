"""Users and what they may do, on each broker of a cluster (3001 to 3010)."""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from aerobee.admin.calls import AdminCalls, Answers
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.remoting.bodies import (
    AclInfo,
    Body,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.headers.access import (
    DeleteAclRequest,
    ListAclsRequest,
    ListUsersRequest,
    SubjectRequest,
    UserRequest,
)
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.access.policies import Action, Decision, Pattern, actions_of, network

SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"
"""The types and states of users, and the types of policies, as RocketMQ spells them."""
USER_PREFIX: Final = "User:"

B = TypeVar("B", bound=Body)


class _Listed(Body, frozen=True, kw_only=True):
    users: list[UserInfo] = msgspec.field(default_factory=list)
    acls: list[AclInfo] = msgspec.field(default_factory=list)


class AccessAdmin:
    """Lists, makes, changes and deletes users and their policies, on masters and slaves alike.

        await admin.access.create_user(UserInfo(username="ann", password=secret))
        entry = PolicyEntryInfo(resource="Topic:orders", actions=["Pub"], decision="Allow")
        await admin.access.put_entries("ann", [entry])

    Each broker keeps users of its own: what is not everywhere is not so by itself. Whoever does
    this on brokers that ask is a user himself (`ClientSettings.credentials`).
    """

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin

    async def servers(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, str]:
        """Return the addresses of masters and slaves; a slave is called as its master and ":1"."""
        masters = await self._admin.masters_of(cluster, broker)
        names = {entry.name for entry in masters}
        return {
            server_name(entry): entry.address
            for entry in await self._admin.brokers()
            if entry.name in names
        }

    async def users(
        self, servers: dict[str, str], *, like: str = ""
    ) -> Answers[dict[str, UserInfo]]:
        """Return users by name, whose names have `like` in them, of each server.

        Passwords are among it where RocketMQ answers, and for super users.
        """

        async def ask(address: str) -> dict[str, UserInfo]:
            header = ListUsersRequest(filter=like or None)
            listed = await self._list(address, RequestCode.AUTH_LIST_USER, header, "users")
            return {user.username: user for user in listed.users}

        return await self._admin.each(servers, ask)

    async def user(self, address: str, name: str) -> UserInfo | None:
        """Return one user as the server at an address knows him, None if it does not."""
        header = UserRequest(username=name)
        return await self._one(address, RequestCode.AUTH_GET_USER, UserInfo, header)

    async def create_user(self, user: UserInfo, servers: dict[str, str]) -> None:
        """Make a user on each server; raises InvalidUse where one has him, before any change."""
        if there := [each for each, known in (await self._known(user.username, servers)) if known]:
            raise InvalidUse(
                f"{', '.join(there)} has a user {user.username!r} already: `aerobee user alter`"
                f" changes him, `aerobee user copy {user.username} --from {there[0]}` gives others"
                " what he has there"
            )
        await self._tell(servers.values(), RequestCode.AUTH_CREATE_USER, user)

    async def alter_user(self, user: UserInfo, servers: dict[str, str]) -> None:
        """Change what is given of a user; raises InvalidUse where a server lacks him, before."""
        await self._need(user.username, servers)
        await self._tell(servers.values(), RequestCode.AUTH_UPDATE_USER, user)

    async def delete_user(self, name: str, servers: dict[str, str]) -> list[str]:
        """Delete a user and his policies; return the servers that had him. Again is no harm."""
        had = [each for each, known in (await self._known(name, servers)) if known]
        header = UserRequest(username=name)
        for address in servers.values():
            await self._admin.connections.request(address, RequestCode.AUTH_DELETE_USER, header)
        return had

    async def copy_user(self, name: str, source: str, servers: dict[str, str]) -> None:
        """Give servers a user as the one at `source` has him: password, type, state, policies.

        Policies are added to those that he has there. Raises InvalidUse where the source does not
        know him, or does not tell his password.
        """
        user = await self.user(source, name)
        if user is None:
            raise InvalidUse(f"{source} has no user {name!r}")
        if not user.password:
            raise InvalidUse(f"{source} tells passwords to super users alone, who sign the request")
        acl = await self.acl(source, name)
        for each, known in await self._known(name, servers):
            code = RequestCode.AUTH_UPDATE_USER if known else RequestCode.AUTH_CREATE_USER
            await self._tell([servers[each]], code, user)
            for policy in acl.policies if acl is not None else ():
                if policy.entries:
                    body = AclInfo(subject=USER_PREFIX + name, policies=[policy])
                    await self._put(servers[each], body)

    async def acls(
        self, servers: dict[str, str], *, subject: str = "", resource: str = ""
    ) -> Answers[list[AclInfo]]:
        """Return policies whose subjects and resources have these in them, of each server."""

        async def ask(address: str) -> list[AclInfo]:
            header = ListAclsRequest(
                subject_filter=subject or None, resource_filter=resource or None
            )
            return (await self._list(address, RequestCode.AUTH_LIST_ACL, header, "acls")).acls

        return await self._admin.each(servers, ask)

    async def acl(self, address: str, name: str) -> AclInfo | None:
        """Return what a user may do on the server at an address, None where nothing is said."""
        header = SubjectRequest(subject=USER_PREFIX + name)
        return await self._one(address, RequestCode.AUTH_GET_ACL, AclInfo, header)

    async def put_entries(
        self,
        name: str,
        entries: Sequence[PolicyEntryInfo],
        servers: dict[str, str],
        *,
        policy_type: str = CUSTOM,
    ) -> None:
        """Give a user these entries; of a resource that he has one of, this one counts then.

        Raises InvalidUse where a server does not know him, before anything is changed.
        """
        await self._need(name, servers)
        policy = PolicyInfo(policy_type=policy_type, entries=list(entries))
        for address in servers.values():
            await self._put(address, AclInfo(subject=USER_PREFIX + name, policies=[policy]))

    async def delete_entries(
        self,
        name: str,
        resources: Sequence[str],
        servers: dict[str, str],
        *,
        policy_type: str | None = None,
    ) -> None:
        """Take entries of these resources from a user, all that he has without any; again is no
        harm."""
        for address in servers.values():
            for resource in resources or (None,):
                header = DeleteAclRequest(
                    subject=USER_PREFIX + name, policy_type=policy_type, resource=resource
                )
                await self._unless_gone(
                    self._admin.connections.request(address, RequestCode.AUTH_DELETE_ACL, header)
                )

    async def _put(self, address: str, acl: AclInfo) -> None:
        await self._admin.connections.request(
            address,
            RequestCode.AUTH_CREATE_ACL,
            SubjectRequest(subject=acl.subject),
            body=encode_body(acl),
        )

    async def _tell(self, addresses: Iterable[str], code: int, user: UserInfo) -> None:
        header = UserRequest(username=user.username)
        for address in addresses:
            await self._admin.connections.request(address, code, header, body=encode_body(user))

    async def _known(self, name: str, servers: dict[str, str]) -> list[tuple[str, bool]]:
        """Say of each server whether it knows a user; raises what one of them fails with."""

        async def ask(address: str) -> bool:
            return await self.user(address, name) is not None

        return sorted((await self._admin.each(servers, ask)).or_raise().items())

    async def _need(self, name: str, servers: dict[str, str]) -> None:
        if lacking := [each for each, known in (await self._known(name, servers)) if not known]:
            raise InvalidUse(
                f"{', '.join(lacking)} has no user {name!r}: `aerobee user create {name}` makes"
                f" him, `aerobee user copy {name} --from BROKER` where another broker has him"
            )

    async def _one(self, address: str, code: int, body_type: type[B], header: Header) -> B | None:
        """Ask for one thing; a server says that there is none by an empty body."""
        try:
            reply = await self._admin.connections.request(address, code, header)
        except BrokerRefused as error:
            if _is_absent(error):
                return None
            raise
        return decode_body(body_type, reply.body) if reply.body else None

    async def _list(self, address: str, code: int, header: Header, what: str) -> _Listed:
        reply = await self._admin.connections.request(address, code, header)
        if not reply.body:
            return _Listed()
        return decode_body(_Listed, b'{"%b":%b}' % (what.encode(), bytes(reply.body)))

    async def _unless_gone(self, work: Awaitable[object]) -> None:
        try:
            await work
        except BrokerRefused as error:
            if not _is_absent(error):
                raise


def new_entry(
    resource: str, actions: Sequence[str], sources: Sequence[str] = (), *, deny: bool = False
) -> PolicyEntryInfo:
    """Make an entry of a policy; raises InvalidUse for what no broker would understand.

    RocketMQ leaves actions out that it does not know, without a word.
    """
    try:
        pattern = Pattern.of(resource)
        known = actions_of(actions)
        for source in sources:
            network(source)
    except ValueError as error:
        raise InvalidUse(str(error)) from None
    return PolicyEntryInfo(
        resource=str(pattern),
        actions=[each.value for each in Action if each in known],
        source_ips=list(sources) or None,
        decision=(Decision.DENY if deny else Decision.ALLOW).value,
    )


def server_name(entry: BrokerEntry) -> str:
    """Name a master by its name, a slave by that and its number."""
    return entry.name if entry.broker_id == MASTER_ID else f"{entry.name}:{entry.broker_id}"


def _is_absent(error: BrokerRefused) -> bool:
    """Whether a refusal says that there is no such user, or nothing that he may."""
    return error.code == ResponseCode.NO_PERMISSION and "not exist" in error.remark
