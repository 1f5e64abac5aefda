"""Users: who a request may come from, and what of users and policies travels."""

import enum
from typing import Final, TypeVar

import msgspec

from aerobee.remoting.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.policies import (
    Acl,
    Action,
    Decision,
    Pattern,
    PolicyEntry,
    PolicyType,
    actions_of,
    network,
)

USER: Final = "User:"
"""What the name of a policy's subject begins with; there are no others."""
NAME_CHARS_MAX: Final = 255
PASSWORD_CHARS_MAX: Final = 1024
SOURCES_MAX: Final = 1000
"""Addresses of one entry."""

E = TypeVar("E", bound=enum.Enum)


class UserType(enum.Enum):
    """A super user may do all, and is asked no policy."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(enum.Enum):
    """A user that is disabled may do nothing."""

    ENABLE = "enable"
    DISABLE = "disable"


class User(msgspec.Struct, frozen=True):
    """Somebody who signs requests; `password` is the secret of the signatures, kept as it is."""

    name: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    def __repr__(self) -> str:
        return f"User(name={self.name!r}, type={self.type.value}, status={self.status.value})"

    @property
    def is_super(self) -> bool:
        """Whether no policy is asked."""
        return self.type is UserType.SUPER

    def info(self, *, secret: bool) -> UserInfo:
        """Return it as it travels; the password only where it is to."""
        return UserInfo(
            username=self.name,
            password=self.password if secret else None,
            user_type=self.type.value,
            user_status=self.status.value,
        )


def refused(remark: str) -> RequestError:
    """Return the error that RocketMQ's managers of users and policies answer with (16)."""
    return RequestError(ResponseCode.NO_PERMISSION, remark)


def new_user(info: UserInfo) -> User:
    """Read a user that is to be made; raises RequestError for one that cannot be."""
    name, password = info.username, info.password or ""
    if not name.strip():
        raise refused("username can not be blank")
    if not password.strip():
        raise refused("password can not be blank")
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise refused(f"a username has up to {NAME_CHARS_MAX} characters that can be printed")
    _check_password(password)
    return User(
        name,
        password,
        _named(UserType, info.user_type) or UserType.NORMAL,
        _named(UserStatus, info.user_status) or UserStatus.ENABLE,
    )


def changed_user(user: User, info: UserInfo) -> User:
    """Return a user with what a change names; what it leaves blank stays."""
    password = info.password or ""
    _check_password(password)
    return User(
        user.name,
        password if password.strip() else user.password,
        _named(UserType, info.user_type) or user.type,
        _named(UserStatus, info.user_status) or user.status,
    )


def user_type(info: UserInfo) -> UserType | None:
    """Read which type of user is asked for, None where none is said."""
    return _named(UserType, info.user_type)


def _check_password(password: str) -> None:
    if len(password) > PASSWORD_CHARS_MAX:
        raise refused(f"a password has up to {PASSWORD_CHARS_MAX} characters")


def _named(kind: type[E], text: str | None) -> E | None:
    """Read a word whatever its letters' case; None where nothing is said."""
    if not text:
        return None
    for each in kind:
        if each.value.lower() == text.lower():
            return each
    names = " and ".join(each.value for each in kind)
    raise refused(f"{kind.__name__} {text[:NAME_CHARS_MAX]!r}: there are {names}")


def subject_name(subject: str) -> str:
    """Return the user that a policy's subject names; raises RequestError where it names none."""
    if not subject.lower().startswith(USER.lower()) or len(subject) == len(USER):
        raise refused("The subject type is null. (a subject is User: and a name)")
    return subject[len(USER) :]


def acl_info(name: str, acl: Acl) -> AclInfo:
    """Return what a user may do as it travels."""
    return AclInfo(
        subject=USER + name,
        policies=[
            PolicyInfo(policy_type=each.value, entries=[_entry_info(entry) for entry in entries])
            for each, entries in acl.policies.items()
        ],
    )


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=str(entry.pattern),
        actions=[each.value for each in Action if each in entry.actions],
        source_ips=list(entry.sources) or None,
        decision=entry.decision.value,
    )


def entries_of(policy: PolicyInfo) -> tuple[PolicyType, tuple[PolicyEntry, ...]]:
    """Read a policy; raises RequestError in RocketMQ's words for one that says nothing clear."""
    if not policy.entries:
        raise refused("The policy entries is empty.")
    return policy_type(policy.policy_type), tuple(map(_entry, policy.entries))


def policy_type(text: str | None) -> PolicyType:
    """Read the type of a policy; without one it is a custom one."""
    return _named(PolicyType, text) or PolicyType.CUSTOM


def pattern_of(resource: str) -> Pattern:
    """Read a resource; raises RequestError for what is none."""
    if len(resource) > 2 * NAME_CHARS_MAX:
        raise refused(f"The resource is null. (it has more than {2 * NAME_CHARS_MAX} characters)")
    try:
        return Pattern.of(resource)
    except ValueError as error:
        raise refused(f"The resource is null. ({error})") from None


def _entry(info: PolicyEntryInfo) -> PolicyEntry:
    pattern = pattern_of(info.resource)
    if not info.actions:
        raise refused("The actions is empty.")
    if any(word.strip().lower() == "any" for word in info.actions):
        raise refused("The actions can not be Any.")
    try:
        actions = actions_of(info.actions)
    except ValueError as error:
        raise refused(str(error)) from None
    decision = _decision(info.decision)
    return PolicyEntry(pattern, actions, decision, _sources(info.source_ips or ()))


def _sources(texts: "list[str] | tuple[()]") -> tuple[str, ...]:
    if len(texts) > SOURCES_MAX:
        raise refused(f"an entry has up to {SOURCES_MAX} source ips")
    for source in texts:
        if not source.strip():
            raise refused("The source ip is empty.")
        try:
            network(source)
        except ValueError:
            raise refused("The source ip is invalid.") from None
    return tuple(source.strip() for source in texts)


def _decision(text: str) -> Decision:
    for decision in Decision:
        if decision.value.lower() == text.lower():
            return decision
    raise refused("The decision is null or illegal.")
