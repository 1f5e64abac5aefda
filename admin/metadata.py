"""What topics and groups a cluster is to have, as a file: written, compared, applied.

The file is JSON, for which commands take YAML and TOML: for each topic and group the brokers that
have it in one way, with its settings under RocketMQ's names. "*" stands for every master.

    {"version": 1,
     "topics": {"orders": [{"brokers": ["*"], "config": {"readQueueNums": 8}}]},
     "groups": {"billing": [{"brokers": ["broker-a"], "config": {"retryMaxTimes": 3}}]}}
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from aerobee.admin.calls import AdminCalls
from aerobee.admin.groups import GroupAdmin, is_own_group
from aerobee.admin.topics import TopicAdmin, is_own_topic
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import Body, SubscriptionGroupConfig, TopicConfig, plain
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.groups import DeleteGroupRequest
from aerobee.remoting.headers.topics import DeleteTopicRequest

EVERY_BROKER: Final = "*"
VERSION: Final = 1

C = TypeVar("C", TopicConfig, SubscriptionGroupConfig)


class Metadata(msgspec.Struct, frozen=True):
    """The topics and groups of a cluster by name, and by broker: those that users made."""

    topics: dict[str, dict[str, TopicConfig]]
    groups: dict[str, dict[str, SubscriptionGroupConfig]]


class MetadataChange(msgspec.Struct, frozen=True):
    """One thing to do on one broker; `settings` are (before, after) by RocketMQ's names."""

    action: Literal["create", "change", "delete"]
    kind: Literal["topic", "group"]
    name: str
    broker: str
    settings: dict[str, tuple[Any, Any]]
    before: TopicConfig | SubscriptionGroupConfig | None
    after: TopicConfig | SubscriptionGroupConfig | None


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    brokers: list[str]
    config: dict[str, Any]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    topics: dict[str, list[_Entry]] = {}
    groups: dict[str, list[_Entry]] = {}


class MetadataAdmin:
    """Reads what a cluster has, and makes it what a file says.

    wanted = await admin.metadata.read(Path("cluster.json").read_bytes())
    changes = difference(await admin.metadata.current(), wanted)
    await admin.metadata.apply(changes)
    """

    def __init__(self, admin: AdminCalls, topics: TopicAdmin, groups: GroupAdmin) -> None:
        self._admin = admin
        self._topics = topics
        self._groups = groups

    async def current(self) -> Metadata:
        """Return what all masters have; raises what one fails with: half of it would mislead."""
        topics = (await self._topics.configs()).or_raise()
        groups = (await self._groups.configs()).or_raise()
        own = frozenset(
            name for entry in await self._admin.brokers() for name in (entry.name, entry.cluster)
        )
        found = Metadata({}, {})
        for broker, configs in topics.items():
            for name, config in configs.items():
                if not is_own_topic(name, own):
                    found.topics.setdefault(name, {})[broker] = config
        for broker, group_configs in groups.items():
            for name, group_config in group_configs.items():
                if not is_own_group(name):
                    found.groups.setdefault(name, {})[broker] = group_config
        return found

    async def read(self, data: bytes) -> Metadata:
        """Read a file; raises InvalidUse, with the place, for what it cannot be.

        Each broker that is named has to be there.
        """
        try:
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise InvalidUse(f"the file cannot be read: {error}") from None
        masters = {entry.name for entry in await self._admin.masters_of()}
        topics = {
            name: _placed(f"topics.{name}", TopicConfig, {"topicName": name}, entries, masters)
            for name, entries in file.topics.items()
        }
        groups = {
            name: _placed(
                f"groups.{name}", SubscriptionGroupConfig, {"groupName": name}, entries, masters
            )
            for name, entries in file.groups.items()
        }
        return Metadata(topics, groups)

    async def apply(
        self, changes: list[MetadataChange], *, progress: Callable[[int], None] = lambda done: None
    ) -> int:
        """Make these changes, in their order; return how many were made, and tell each time.

        Where one is refused those before it are made: what is left is the difference then.
        """
        addresses = {entry.name: entry.address for entry in await self._admin.masters_of()}
        done = 0
        for change in changes:
            if change.broker not in addresses:
                raise InvalidUse(f"{change.broker} has gone since the changes were found")
            await self._apply_one(addresses[change.broker], change)
            done += 1
            progress(done)
        gone = {each.name for each in changes if each.kind == "topic" and each.after is None}
        left = (await self.current()).topics if gone else {}
        for name in sorted(gone - left.keys()):
            header = DeleteTopicRequest(topic=name)
            await self._admin.tell_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        return done

    async def _apply_one(self, address: str, change: MetadataChange) -> None:
        after, before = change.after, change.before
        if isinstance(after, TopicConfig):
            await self._topics.put(
                address, after, before if isinstance(before, TopicConfig) else None
            )
        elif isinstance(after, SubscriptionGroupConfig):
            await self._groups.put(address, after)
        elif change.kind == "topic":
            await self._admin.connections.request(
                address,
                RequestCode.DELETE_TOPIC_IN_BROKER,
                DeleteTopicRequest(topic=change.name),
            )
        else:
            await self._admin.connections.request(
                address,
                RequestCode.DELETE_SUBSCRIPTIONGROUP,
                DeleteGroupRequest(group_name=change.name, clean_offset=True),
            )


def as_file(metadata: Metadata) -> bytes:
    """Write metadata as a file that version control compares well: sorted, a value a line."""
    topics = {name: _entries(placed) for name, placed in sorted(metadata.topics.items())}
    groups = {name: _entries(placed) for name, placed in sorted(metadata.groups.items())}
    data = msgspec.json.encode({"version": VERSION, "topics": topics, "groups": groups})
    return msgspec.json.format(data, indent=2) + b"\n"


def difference(current: Metadata, wanted: Metadata, *, prune: bool = False) -> list[MetadataChange]:
    """Return what makes the one the other; with `prune` what the file does not name goes."""
    return [
        *_changes("topic", current.topics, wanted.topics, prune),
        *_changes("group", current.groups, wanted.groups, prune),
    ]


def _changes(
    kind: Literal["topic", "group"],
    current: Mapping[str, Mapping[str, TopicConfig | SubscriptionGroupConfig]],
    wanted: Mapping[str, Mapping[str, TopicConfig | SubscriptionGroupConfig]],
    prune: bool,
) -> list[MetadataChange]:
    found: list[MetadataChange] = []
    for name, placed in sorted(wanted.items()):
        for broker, after in sorted(placed.items()):
            before = current.get(name, {}).get(broker)
            settings = _differing(before, after)
            if before is None:
                found.append(MetadataChange("create", kind, name, broker, settings, None, after))
            elif settings:
                found.append(MetadataChange("change", kind, name, broker, settings, before, after))
    for name, placed in sorted(current.items()) if prune else ():
        for broker, before in sorted(placed.items()):
            if broker not in wanted.get(name, {}):
                found.append(MetadataChange("delete", kind, name, broker, {}, before, None))
    return found


def _differing(before: Body | None, after: Body) -> dict[str, tuple[Any, Any]]:
    was = plain(before) if before is not None else {}
    now = plain(after)
    return {
        key: (was.get(key), now.get(key))
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key)
    }


def _placed(
    place: str,
    kind: type[C],
    named: dict[str, str],
    entries: list[_Entry],
    masters: set[str],
) -> dict[str, C]:
    """Return the settings of one topic or group by broker."""
    placed: dict[str, C] = {}
    known = set(kind.__struct_encode_fields__) - named.keys()
    for number, entry in enumerate(entries):
        at = f"{place}[{number}]"
        if unknown := entry.config.keys() - known:
            allowed = ", ".join(sorted(known))
            raise InvalidUse(f"{at}.config: no setting {min(unknown)!r}; there is {allowed}")
        try:
            config = msgspec.convert(entry.config | named, kind)
        except msgspec.ValidationError as error:
            raise InvalidUse(f"{at}.config: {error}") from None
        brokers = masters if EVERY_BROKER in entry.brokers else set(entry.brokers)
        if lacking := brokers - masters:
            raise InvalidUse(
                f"{at}.brokers: no broker {min(lacking)!r}; there is {', '.join(sorted(masters))}"
            )
        if twice := brokers & placed.keys():
            raise InvalidUse(f"{at}.brokers: {min(twice)!r} is named twice")
        placed |= dict.fromkeys(brokers, config)
    return placed


def _entries(placed: Mapping[str, Body]) -> list[dict[str, Any]]:
    """Put brokers together that have the same."""
    same: dict[bytes, tuple[list[str], dict[str, Any]]] = {}
    for broker, config in sorted(placed.items()):
        settings = {
            key: value
            for key, value in plain(config).items()
            if key not in ("topicName", "groupName")
        }
        brokers, _ = same.setdefault(msgspec.json.encode(settings, order="sorted"), ([], settings))
        brokers.append(broker)
    return [
        {"brokers": brokers, "config": dict(sorted(settings.items()))}
        for brokers, settings in same.values()
    ]
