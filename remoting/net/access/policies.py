"""Policies: what a user may do to which topics, groups and the cluster, and from where.

The words are RocketMQ's (its authorization of 5.3 and later). An entry names a resource, actions,
addresses and a decision; of the entries that match a need the most specific one decides, and where
none does, the need is refused.
"""

import enum
import ipaddress
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, Self

import msgspec

from aerobee.remoting.words import RETRY_PREFIX

ANY: Final = "*"
MAPPED_BITS: Final = 96
"""Of an IPv6 address before the IPv4 one in it."""


class ResourceKind(enum.Enum):
    """What a resource is, by RocketMQ's names."""

    ANY = "*"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(enum.Enum):
    """What is done to a resource; an entry that says `ALL` speaks of each."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(enum.Enum):
    """What an entry says to what it matches."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(enum.Enum):
    """Entries of `DEFAULT` are asked where none of `CUSTOM` matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Resource(msgspec.Struct, frozen=True):
    """A thing by its name, as requests need it: `Topic:orders`, `Group:billing`, `Cluster:c`."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


def topic(name: str) -> Resource:
    """Return the resource that a topic is; a group's retry topic is that group."""
    if name.startswith(RETRY_PREFIX):
        return Resource(ResourceKind.GROUP, name[len(RETRY_PREFIX) :])
    return Resource(ResourceKind.TOPIC, name)


def group(name: str) -> Resource:
    """Return the resource that a group is, by its name or that of its retry topic."""
    return Resource(ResourceKind.GROUP, name.removeprefix(RETRY_PREFIX))


class Need(msgspec.Struct, frozen=True):
    """What a request must be allowed: one of `actions` on the resource is enough."""

    resource: Resource
    actions: tuple[Action, ...]


class Pattern(msgspec.Struct, frozen=True):
    """What an entry speaks of: `*`, `Topic:*`, `Topic:orders_*`, or one resource by its name.

    With `prefix` all whose names begin with `name`, which are all of a kind where it is empty.
    """

    kind: ResourceKind
    name: str = ""
    prefix: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Read one as RocketMQ does; raises ValueError for what names no resource."""
        if text == ANY:
            return cls(ResourceKind.ANY, prefix=True)
        word, colon, name = text.partition(":")
        kind = _KINDS.get(word.lower())
        if kind is None or not colon or not name:
            raise ValueError(
                f"{text!r} names no resource: '*' or Topic:, Group:, Cluster: and a name"
            )
        if name.endswith(ANY):
            return cls(kind, name.partition(ANY)[0], prefix=True)
        return cls(kind, name)

    def __str__(self) -> str:
        if self.kind is ResourceKind.ANY:
            return ANY
        return f"{self.kind.value}:{self.name}{ANY if self.prefix else ''}"

    def matches(self, resource: Resource) -> bool:
        """Whether it speaks of this one."""
        if self.kind is ResourceKind.ANY:
            return True
        if self.kind is not resource.kind:
            return False
        return resource.name.startswith(self.name) if self.prefix else resource.name == self.name

    @property
    def order(self) -> tuple[bool, bool, int]:
        """Where it stands among those that match: the most specific first."""
        return self.kind is ResourceKind.ANY, self.prefix, -len(self.name)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def network(text: str) -> Network:
    """Read an address or a CIDR range; raises ValueError for what is neither.

    IPv4 within IPv6 is IPv4, as it is of peers (`address`).
    """
    found = ipaddress.ip_network(text.strip(), strict=False)
    mapped = getattr(found.network_address, "ipv4_mapped", None)
    if mapped is None or found.prefixlen < MAPPED_BITS:
        return found
    return ipaddress.IPv4Network((mapped, found.prefixlen - MAPPED_BITS))


def address(text: str) -> Address:
    """Read where a peer is; IPv4 within IPv6 is IPv4."""
    found = ipaddress.ip_address(text.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


class PolicyEntry(msgspec.Struct, frozen=True, dict=True):
    """One line of a policy; without `sources` it holds wherever the user is."""

    pattern: Pattern
    actions: frozenset[Action]
    decision: Decision
    sources: tuple[str, ...] = ()

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The addresses that it speaks of."""
        return tuple(map(network, self.sources))

    def matches(self, need: Need, source: Address) -> bool:
        """Whether it speaks of this need of a user who is there."""
        if not self.pattern.matches(need.resource):
            return False
        if Action.ALL not in self.actions and self.actions.isdisjoint(need.actions):
            return False
        return not self.sources or any(source in each for each in self.networks)


class Acl(msgspec.Struct, frozen=True, dict=True):
    """All entries of one user, by the type of their policy; of a resource each has one entry."""

    policies: dict[PolicyType, tuple[PolicyEntry, ...]]

    @cached_property
    def _sorted(self) -> tuple[tuple[PolicyEntry, ...], ...]:
        types = (PolicyType.CUSTOM, PolicyType.DEFAULT)
        return tuple(
            tuple(sorted(self.policies.get(each, ()), key=lambda entry: entry.pattern.order))
            for each in types
        )

    def decision(self, need: Need, source: Address) -> Decision | None:
        """Return what it says to a need of this user, None where no entry matches."""
        for entries in self._sorted:
            for entry in entries:
                if entry.matches(need, source):
                    return entry.decision
        return None

    def with_entries(self, policy: PolicyType, entries: Iterable[PolicyEntry]) -> "Acl":
        """Return it with these instead of those that name the same resources."""
        fresh = {entry.pattern: entry for entry in self.policies.get(policy, ())}
        fresh |= {entry.pattern: entry for entry in entries}
        return Acl({**self.policies, policy: tuple(fresh.values())})

    def without(self, policy: PolicyType, pattern: Pattern) -> "Acl":
        """Return it without the entry that names this resource."""
        left = tuple(e for e in self.policies.get(policy, ()) if e.pattern != pattern)
        policies = {**self.policies, policy: left}
        return Acl({each: entries for each, entries in policies.items() if entries})


def actions_of(words: Sequence[str]) -> frozenset[Action]:
    """Read actions by their names; raises ValueError for a word that is none."""
    unknown = [word for word in words if word.strip().lower() not in _ACTIONS]
    if unknown:
        names = ", ".join(action.value for action in Action)
        raise ValueError(f"{', '.join(unknown)}: no such action; there are {names}")
    return frozenset(_ACTIONS[word.strip().lower()] for word in words)


_KINDS: Final = {kind.value.lower(): kind for kind in ResourceKind if kind is not ResourceKind.ANY}
_ACTIONS: Final = {action.value.lower(): action for action in Action}
