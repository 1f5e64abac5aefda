"""What `plain_acl.yml` of RocketMQ 4.x says, in the words of 5.3's users and policies; no files.

RocketMQ 4.x let a listed address pass unasked, and an account too that named itself from an address
of its own; it asked no right for looking at topics and groups, so who may consume may look here,
and took a word that it did not know for DENY.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import msgspec
import yaml

from aerobee.broker.features.access.plain_addresses import networks_of
from aerobee.remoting.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from aerobee.remoting.errors import AerobeeError, RequestError
from aerobee.remoting.net.access.policies import Action, Decision, PolicyType
from aerobee.remoting.net.access.users import USER, UserType, new_user
from aerobee.remoting.net.access.white import EVERYBODY

DEPTH_MAX: Final = 16
FIELDS: Final = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion"})
ACCOUNT_FIELDS: Final = frozenset(
    {
        "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm",
        "defaultGroupPerm", "topicPerms", "groupPerms",
    }
)  # fmt: skip
MANAGING: Final = (Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET, Action.LIST)
"""What an admin may do to a topic or group whose messages are none of his."""
_PERMS: Final[dict[str, tuple[Action, ...]]] = {
    "PUB": (Action.PUB,),
    "SUB": (Action.SUB, Action.GET),
    "PUB|SUB": (Action.PUB, Action.SUB, Action.GET),
    "SUB|PUB": (Action.PUB, Action.SUB, Action.GET),
}
_DENY: Final = "DENY"
_YES: Final = frozenset({"true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off", ""})


class PlainAclError(AerobeeError):
    """A file of RocketMQ 4.x cannot be taken over; the text names it, the place, and what to do."""


class Account(msgspec.Struct, frozen=True):
    """One account, as a user with what he may do; from `white` addresses he is not asked."""

    user: UserInfo
    acl: AclInfo
    white: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Account({self.user.username!r})"


class PlainAcl(msgspec.Struct, frozen=True):
    """All that one file says; `warnings` is what of it an operator may not expect.

    It is not `complete` where its last line has no end, as of a file that is half written.
    """

    accounts: tuple[Account, ...] = ()
    white: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    complete: bool = True


def read_plain_acl(text: bytes, name: str) -> PlainAcl:
    """Read the text of a file of this name; raises PlainAclError."""
    try:
        content = _parse(text)
        found = _Reading(name).all(content)
        return msgspec.structs.replace(found, complete=text.endswith(b"\n") or not text)
    except (yaml.YAMLError, UnicodeError) as error:
        raise PlainAclError(f"{name}: this is no YAML that can be read: {_why(error)}") from None
    except (ValueError, RequestError) as error:
        why = error.remark if isinstance(error, RequestError) else str(error)
        raise PlainAclError(f"{name}: {why}") from None


def _why(error: Exception) -> str:
    """Return what is wrong with a text, and where, without a line of it: it has secrets."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return type(error).__name__ if isinstance(error, UnicodeError) else str(error)
    mark = error.problem_mark or error.context_mark
    where = f" (line {mark.line + 1})" if mark is not None else ""
    return f"{', '.join(filter(None, (error.context, error.problem)))}{where}"


_Base: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Texts(_Base):  # type: ignore[misc]
    """Keeps numbers, dates and words as they were written: a secret may look like any of them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is there twice: one of both would be dropped."""
        keys = [each.value for each, _ in node.value if isinstance(each, yaml.ScalarNode)]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"line {_line(node)}: {', '.join(twice)} is there twice")
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


for _kind in ("bool", "int", "float", "timestamp"):
    _Texts.add_constructor(f"tag:yaml.org,2002:{_kind}", lambda loader, node: str(node.value))


def _parse(text: bytes) -> Any:
    """Return what a text holds: mappings, lists, and texts, of a bounded size and depth."""
    depth = 0
    for event in yaml.parse(text.decode(), Loader=_Texts):
        if isinstance(event, yaml.AliasEvent):
            _refuse(f"line {_line(event)}: references (*{event.anchor}) are not read, write it out")
        opens = isinstance(event, yaml.CollectionStartEvent)
        depth += opens - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise ValueError(f"line {_line(event)}: nested too deeply")
    return yaml.load(text.decode(), Loader=_Texts)  # one of its SafeLoaders


def _line(of: yaml.Event | yaml.Node) -> int:
    return of.start_mark.line + 1 if of.start_mark is not None else 0


class _Reading:
    """Reads one file, and collects what is worth a warning."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._warnings: list[str] = []

    def all(self, content: Any) -> PlainAcl:
        """Return what it says; raises ValueError, or RequestError for what no user can be."""
        if content is None:
            return PlainAcl()
        top = _mapping(content, "the file", FIELDS)
        white = tuple(self._addresses(_texts(top, "globalWhiteRemoteAddresses"), "everybody"))
        accounts: dict[str, Account] = {}
        listed = top.get("accounts")
        if listed is not None and not isinstance(listed, list):
            raise ValueError("accounts is no list")
        for number, each in enumerate(listed or (), 1):
            made = self._account(_mapping(each, f"account {number}", ACCOUNT_FIELDS), number)
            if made.user.username in accounts:
                raise ValueError(f"account {made.user.username!r} is there twice")
            accounts[made.user.username] = made
        return PlainAcl(tuple(accounts.values()), white, tuple(self._warnings))

    def _account(self, fields: Mapping[str, Any], number: int) -> Account:
        name = _text(fields, "accessKey") or ""
        try:
            admin = _flag(fields, "admin")
            topics = dict(self._perms(fields, "topicPerms", name))
            groups = dict(self._perms(fields, "groupPerms", name))
            is_super = admin and not topics and not groups
            info = UserInfo(
                username=name,
                password=_text(fields, "secretKey"),
                user_type=(UserType.SUPER if is_super else UserType.NORMAL).value,
            )
            new_user(info)
            custom = [
                *(_entry(f"Topic:{each}", perm, admin=admin) for each, perm in topics.items()),
                *(_entry(f"Group:{each}", perm, admin=admin) for each, perm in groups.items()),
            ]
            default = list(self._defaults(fields, name, admin=admin))
            if admin and not is_super:
                custom.append(_allowed("Cluster:*", (Action.ALL,)))
            white = tuple(
                self._addresses(_texts(fields, "whiteRemoteAddress"), f"who says {name!r}")
            )
        except (ValueError, RequestError) as error:
            why = error.remark if isinstance(error, RequestError) else error
            raise ValueError(f"account {number} ({name!r}): {why}") from None
        types = ((PolicyType.CUSTOM, custom), (PolicyType.DEFAULT, default))
        policies = [
            PolicyInfo(policy_type=kind.value, entries=entries)
            for kind, entries in types
            if entries and not is_super
        ]
        return Account(info, AclInfo(subject=USER + name, policies=policies), white)

    def _perms(self, fields: Mapping[str, Any], key: str, name: str) -> Iterator[tuple[str, str]]:
        """Yield the names of a list like `orders=PUB|SUB` with what they are allowed."""
        seen: set[str] = set()
        for line in _texts(fields, key):
            parts = [part.strip() for part in line.split("=")]
            if len(parts) != 2 or not all(parts):
                raise ValueError(f"{key} {line!r}: allowed is a name, = and a right")
            if "*" in parts[0]:
                raise ValueError(
                    f"{key} {line!r}: RocketMQ 4.x knew no patterns, so it allowed nothing; remove"
                    " it, and give the right by mqadmin createAcl"
                )
            if parts[0] in seen:
                raise ValueError(f"{key} {parts[0]!r} is there twice")
            seen.add(parts[0])
            yield parts[0], self._perm(parts[1], f"{key} {line!r}", name)

    def _defaults(
        self, fields: Mapping[str, Any], name: str, *, admin: bool
    ) -> Iterator[PolicyEntryInfo]:
        for key, kind in (("defaultTopicPerm", "Topic"), ("defaultGroupPerm", "Group")):
            text = _text(fields, key)
            perm = self._perm(text, f"{key} {text!r}", name) if text else _DENY
            if text or admin:
                yield _entry(f"{kind}:*", perm, admin=admin)

    def _perm(self, text: str, what: str, name: str) -> str:
        """Return a right as 4.x takes it."""
        if text in _PERMS or text == _DENY:
            return text
        self._warnings.append(f"{self._name}: {name!r}: {what} means DENY, as in RocketMQ 4.x")
        return _DENY

    def _addresses(self, texts: Iterable[str], who: str) -> Iterator[str]:
        for text in texts:
            networks = networks_of(text)
            if EVERYBODY.issubset(networks):
                self._warnings.append(f"{self._name}: {text!r} has {who} pass without a signature")
            yield from networks


def _entry(resource: str, perm: str, *, admin: bool) -> PolicyEntryInfo:
    """Return what a right of 4.x is here; an admin's concerns messages alone."""
    if perm == _DENY:
        if admin and resource.endswith("*"):
            return _allowed(resource, MANAGING)
        denied = (Action.PUB, Action.SUB) if admin else (Action.ALL,)
        names = [action.value for action in denied]
        return PolicyEntryInfo(resource=resource, actions=names, decision=Decision.DENY.value)
    actions = _PERMS[perm]
    if admin:
        actions = tuple(dict.fromkeys((*actions, *MANAGING)))
    return _allowed(resource, actions)


def _allowed(resource: str, actions: Iterable[Action]) -> PolicyEntryInfo:
    names = [action.value for action in actions]
    return PolicyEntryInfo(resource=resource, actions=names, decision=Decision.ALLOW.value)


def _mapping(content: Any, what: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        _refuse(f"{what} is no mapping of keys to values")
    if unknown := [key for key in content if key not in known]:
        raise ValueError(
            f"{what}: {str(unknown[0])[:64]!r} is no key of RocketMQ 4.x, which would have passed"
            f" over it; there are {', '.join(sorted(known))}"
        )
    return content


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is None:
        return None
    return value.strip() if isinstance(value, str) else _refuse(f"{key} is no text")


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)


def _texts(fields: Mapping[str, Any], key: str) -> list[str]:
    value = fields.get(key)
    texts = value if isinstance(value, list) else [] if value is None else [value]
    return [text if isinstance(text, str) else _refuse(f"{key} is no text") for text in texts]


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    text = (_text(fields, key) or "").lower()
    if text not in _YES | _NO:
        raise ValueError(f"{key} {text[:32]!r}: allowed are true and false")
    return text in _YES
