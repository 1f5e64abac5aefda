"""The users of a server and what each may do, changed one by one (codes 3001 to 3010).

What a change raises is RocketMQ's remark, and nothing has changed then.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from aerobee.remoting.bodies import AclInfo, Body, UserInfo
from aerobee.remoting.net.access.policies import Acl
from aerobee.remoting.net.access.users import (
    User,
    acl_info,
    changed_user,
    entries_of,
    new_user,
    pattern_of,
    policy_type,
    refused,
    subject_name,
)
from aerobee.remoting.net.access.white import WhiteAddresses

USERS_MAX: Final = 100_000
ENTRIES_MAX: Final = 10_000
"""Of one user: what decides is looked for among all of them."""


class UsersFile(Body, frozen=True, kw_only=True):
    """The text of `users.json`: users as 3005 lists them, with their passwords.

    The white lists are of RocketMQ 4.x: networks, and those of users by name.
    """

    users: list[UserInfo] = msgspec.field(default_factory=list)
    global_white_remote_addresses: list[str] | None = None
    white_remote_addresses: dict[str, list[str]] | None = None


class AclsFile(Body, frozen=True, kw_only=True):
    """The text of `acls.json`: policies as 3010 lists them."""

    acls: list[AclInfo] = msgspec.field(default_factory=list)


class AccessBook:
    """Users and their policies in memory.

    `on_users` and `on_acls` are for who keeps them, `on_change` for who goes by them: it hears of
    every change when it has been made.
    """

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.acls: dict[str, Acl] = {}
        self.white = WhiteAddresses()
        self.on_users: list[Callable[[], None]] = []
        self.on_acls: list[Callable[[], None]] = []
        self.on_change: list[Callable[[], None]] = []

    def take_users(self, text: UsersFile) -> None:
        """Have the users of a file; raises RequestError or ValueError for what cannot be one."""
        users = {info.username: new_user(info) for info in text.users}
        listed = text.white_remote_addresses or {}
        of_users = {name: tuple(each) for name, each in listed.items() if name in users}
        self.white.put(text.global_white_remote_addresses or (), of_users)
        self.users = users

    def take_acls(self, text: AclsFile) -> None:
        """Have the policies of a file; raises RequestError for one that cannot be made."""
        self.acls = {
            subject_name(info.subject): _with_policies(Acl({}), info) for info in text.acls
        }

    def put_white(self, everywhere: Iterable[str], of_users: Mapping[str, Sequence[str]]) -> None:
        """Have some networks pass unasked, and no others; of users those that are not named stay.

        Raises ValueError for what is no network.
        """
        named = {name: tuple(each) for name, each in of_users.items()}
        self.white.put(tuple(everywhere), self.white.of_users | named)
        _tell(self.on_users)
        _tell(self.on_change)

    def users_file(self) -> UsersFile:
        """Return what `users.json` is to hold, passwords and all."""
        white = self.white
        return UsersFile(
            users=[user.info(secret=True) for user in self.users.values()],
            global_white_remote_addresses=list(white.everywhere) or None,
            white_remote_addresses={name: list(each) for name, each in white.of_users.items()}
            or None,
        )

    def acls_file(self) -> AclsFile:
        """Return what `acls.json` is to hold."""
        return AclsFile(acls=[acl_info(name, acl) for name, acl in self.acls.items()])

    def create_user(self, info: UserInfo) -> User:
        """Add a user, who may nothing yet: policies of one that a file has lost are not his."""
        user = new_user(info)
        if user.name in self.users:
            raise refused("The user is existed")
        if len(self.users) >= USERS_MAX:
            raise refused(f"there are {USERS_MAX} users already")
        if self.acls.pop(user.name, None) is not None:
            _tell(self.on_acls)
        self._put_user(user)
        return user

    def update_user(self, info: UserInfo) -> User:
        """Change what is named of a user."""
        before = self.users.get(info.username)
        if before is None:
            raise refused("The user is not exist")
        user = changed_user(before, info)
        self._put_user(user)
        return user

    def delete_user(self, name: str) -> None:
        """Forget a user and what he may do; one that is not there is no error."""
        acl, user = self.acls.pop(name, None), self.users.pop(name, None)
        if acl is not None:
            _tell(self.on_acls)
        if user is not None:
            self.white.forget(name)
            _tell(self.on_users)
        _tell(self.on_change)

    def put_acl(self, subject: str, info: AclInfo) -> None:
        """Add entries to what a user may do; those for the same resources are replaced."""
        name = subject_name(info.subject or subject)
        if not info.policies:
            raise refused("The policies is empty.")
        if name not in self.users:
            raise refused(f"The subject of User:{name} is not exist.")
        self.acls[name] = _with_policies(self.acls.get(name, Acl({})), info)
        self._changed_acls()

    def delete_acl(self, subject: str, type_name: str | None, resource: str | None) -> None:
        """Forget one entry, or without `resource` all of a user's."""
        name = self._known(subject)
        acl = self.acls.get(name)
        if acl is None:
            raise refused("The acl is not exist.")
        left = acl.without(policy_type(type_name), pattern_of(resource)) if resource else Acl({})
        if left.policies:
            self.acls[name] = left
        else:
            del self.acls[name]
        self._changed_acls()

    def acl(self, subject: str) -> AclInfo | None:
        """Return what a user may do, None where nothing was said of it."""
        name = self._known(subject)
        acl = self.acls.get(name)
        return None if acl is None else acl_info(name, acl)

    def list_users(self, part: str) -> list[User]:
        """Return the users whose names have this in them."""
        return [user for name, user in self.users.items() if part in name]

    def list_acls(self, subject_part: str, resource_part: str) -> list[AclInfo]:
        """Return the policies of users, and of resources, whose names have this in them."""
        found = (acl_info(name, acl) for name, acl in self.acls.items())
        wanted = (each for each in found if subject_part in each.subject)
        return [
            each for each in (_narrowed(info, resource_part) for info in wanted) if each.policies
        ]

    def _known(self, subject: str) -> str:
        name = subject_name(subject)
        if name not in self.users:
            raise refused("The subject is not exist.")
        return name

    def _put_user(self, user: User) -> None:
        self.users[user.name] = user
        _tell(self.on_users)
        _tell(self.on_change)

    def _changed_acls(self) -> None:
        _tell(self.on_acls)
        _tell(self.on_change)


def _with_policies(acl: Acl, info: AclInfo) -> Acl:
    for policy in info.policies:
        acl = acl.with_entries(*entries_of(policy))
    if sum(map(len, acl.policies.values())) > ENTRIES_MAX:
        raise refused(f"more than {ENTRIES_MAX} entries of one user")
    return acl


def _narrowed(info: AclInfo, resource_part: str) -> AclInfo:
    """Return what of it speaks of resources with this in their names."""
    if not resource_part:
        return info
    policies = [
        msgspec.structs.replace(policy, entries=entries)
        for policy in info.policies
        if (entries := [each for each in policy.entries if resource_part in each.resource])
    ]
    return msgspec.structs.replace(info, policies=policies)


def _tell(listeners: Iterable[Callable[[], None]]) -> None:
    for listener in listeners:
        listener()
