"""The subscription groups of this broker: who may consume, how often a message is tried again.

Invariants: as for topics, every change raises the data version and marks the file; a configuration
is never changed in place (SubscriptionGroupManager).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.rules.attributes import apply_edits
from aerobee.broker.rules.names import group_problem
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.changes_file import Change, ChangesFile
from aerobee.broker.tables.growing_file import GrowingTableFile
from aerobee.broker.tables.table_file import decode_table
from aerobee.remoting.bodies import (
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import SYSTEM_GROUP_PREFIX

log = logging.getLogger(__name__)

GROUPS_MAX: Final = 200_000
_NULLS: Final = re.compile(rb',"\w+":null')  # Java leaves them out; no string can hold such a text
READ_BIT: Final = 1 << 2  # PermName.INDEX_PERM_READ, in the table of forbidden topics

SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class GroupsChange(Change, frozen=True, kw_only=True):
    """All that there is of some groups: those that are gone are in no table."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = msgspec.field(
        default_factory=dict
    )
    forbidden_table: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    deleted: list[str] = msgspec.field(default_factory=list)


class GroupTable:
    """All group configurations by name, kept in `config/subscriptionGroup.json`."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        folder: Path,
        *,
        auto_create: bool = True,
        create_system: bool = True,
        groups_max: int = GROUPS_MAX,
    ) -> None:
        self._now_ms = now_ms
        self._table = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self._forbidden: dict[str, dict[str, int]] = {}
        # what each was when it was encoded, and its text; another thread writes there, too
        self._encoded: dict[str, tuple[SubscriptionGroupConfig, bytes]] = {}
        self._changed: dict[str, int] = {}  # names, and how often the file was marked by then
        self.auto_create = auto_create
        self.create_system = create_system
        self.groups_max = groups_max
        self.data_version = DataVersion(timestamp=now_ms())
        self.reports = asyncio.Lock()  # on all groups, one at a time: each takes some megabytes
        path = folder / "subscriptionGroup.json"
        self.file = GrowingTableFile(path, self, ChangesFile(path, GroupsChange))
        self.file.mark()

    def load(self) -> None:
        """Read subscriptionGroup.json, if there is one, and what has changed since."""
        stored = self.file.load(_decode)
        if stored is not None:
            self._table.update(stored.subscription_group_table)
            self._forbidden.update(stored.forbidden_table)
            self.data_version = stored.data_version
        for change in self.file.changes(None if stored is None else stored.data_version):
            self._take(change)

    def apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time."""
        self.auto_create = settings.auto_create_subscription_group
        self.create_system = settings.enable_create_sys_group
        self.groups_max = settings.groups_max

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group's configuration."""
        return self._table.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        """Yield every configuration; the table may change meanwhile."""
        return iter(list(self._table.values()))

    def find(self, name: str, *, auto_create: bool = True) -> SubscriptionGroupConfig | None:
        """Return a group's configuration, made with RocketMQ's defaults when it is unknown.

        Returns None for an unknown group where groups are not made by use, where the name is not
        allowed or `groups_max` is reached (findSubscriptionGroupConfig).
        """
        config = self._table.get(name)
        if config is not None or not auto_create:
            return config
        system = self.create_system and name.startswith(SYSTEM_GROUP_PREFIX)
        if not (self.auto_create or system) or group_problem(name) is not None:
            return None
        if len(self._table) >= self.groups_max:
            log.warning("group_refused group=%s groups_max=%d", name, self.groups_max)
            return None
        config = SubscriptionGroupConfig(group_name=name)
        self._put(config)
        return config

    def update(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Create or replace a group; its `attributes` are edits of the attributes it has.

        Raises RequestError where an edit is not allowed, or no further group is.
        """
        self.check_new([config.group_name])
        config = self.planned(config)
        self._put(config)
        return config

    def planned(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return what `update` would make of a group as it is now; RequestError for an edit."""
        known = self._table.get(config.group_name)
        current = None if known is None else known.attributes or {}
        attributes = apply_edits(current, config.attributes, known={})
        return msgspec.structs.replace(config, attributes=attributes)

    def check_new(self, names: Iterable[str]) -> None:
        """Refuse groups that are to be made together where there is no room for one of them."""
        new = dict.fromkeys(name for name in names if name not in self._table)
        for number, name in enumerate(new, len(self._table)):
            if number >= self.groups_max:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"group {name} cannot be made: the broker has {len(self._table)} "
                    "groups, groupsMax is the limit",
                )

    def delete(self, name: str) -> bool:
        """Remove a group; return whether it was there."""
        forbidden = self._forbidden.pop(name, None)
        self._encoded.pop(name, None)
        if self._table.pop(name, None) is None:
            if forbidden is not None:
                self._next_version(name)
            return False
        log.info("group_deleted group=%s", name)
        self._next_version(name)
        return True

    def is_read_forbidden(self, group: str, topic: str) -> bool:
        """Whether an administrator has closed a topic to a group (code 353)."""
        forbidden = self._forbidden.get(group)
        return forbidden is not None and bool(forbidden.get(topic, 0) & READ_BIT)

    def forbid_reading(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Close a topic to a group, or open it again; its other topics stay as they are.

        RocketMQ opens all topics of the group when it opens one (updateForbiddenValue).
        """
        bits = self._forbidden.get(group, {}).get(topic, 0)
        bits = bits | READ_BIT if forbidden else bits & ~READ_BIT
        topics = self._forbidden.setdefault(group, {})
        topics.pop(topic, None)
        if bits:
            topics[topic] = bits
        if not topics:
            del self._forbidden[group]
        log.info("group_forbidden group=%s topic=%s bits=%d", group, topic, bits)
        self._next_version(group)

    def forbidden(self) -> dict[str, dict[str, int]]:
        """Return the forbidden bits by group and topic."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def encode(self) -> bytes:
        """Return the text of subscriptionGroup.json."""
        return self.snapshot()()

    def snapshot(self) -> Callable[[], bytes]:
        """Return what makes the text of subscriptionGroup.json as it is now, for another thread.

        A group is encoded again only where it has changed.
        """
        self._forget_changes(self.file.written)
        return partial(self._text, self.data_version, self.forbidden(), dict(self._table))

    def changed_since(self, marked: int) -> bytes:
        """Return what a change says of the groups that have changed since the file's mark."""
        self._forget_changes(marked)
        there, gone = [], []
        for name in self._changed:
            config = self._table.get(name)
            if config is None:
                gone.append(name)
            else:
                there.append(self._piece(name, config))
        forbidden = {
            name: self._forbidden[name] for name in self._changed if name in self._forbidden
        }
        return (
            b'"dataVersion":%b,"subscriptionGroupTable":{%b},"forbiddenTable":%b,"deleted":%b'
        ) % (
            msgspec.json.encode(self.data_version), b",".join(there),
            msgspec.json.encode(forbidden), msgspec.json.encode(gone),
        )  # fmt: skip

    def _forget_changes(self, marked: int) -> None:
        self._changed = {name: at for name, at in self._changed.items() if at > marked}

    def encode_some(self, names: Iterable[str], forbidden: Mapping[str, dict[str, int]]) -> bytes:
        """Return some groups of the table as the reply to 201 has them."""
        pieces = b",".join([self._piece(name, self._table[name]) for name in names])
        return b'{"subscriptionGroupTable":{%b},"forbiddenTable":%b,"dataVersion":%b}' % (
            pieces, msgspec.json.encode(forbidden), msgspec.json.encode(self.data_version),
        )  # fmt: skip

    def _text(
        self,
        version: DataVersion,
        forbidden: dict[str, dict[str, int]],
        table: dict[str, SubscriptionGroupConfig],
    ) -> bytes:
        return b'{"dataVersion":%b,"forbiddenTable":%b,"subscriptionGroupTable":{\n%b\n}}' % (
            msgspec.json.encode(version),
            msgspec.json.encode(forbidden),
            b",\n".join([self._piece(name, config) for name, config in table.items()]),
        )

    def _piece(self, name: str, config: SubscriptionGroupConfig) -> bytes:
        known = self._encoded.get(name)
        if known is not None and known[0] is config:
            return known[1]
        text = _NULLS.sub(b"", msgspec.json.encode(config))
        piece = b"%b:%b" % (msgspec.json.encode(name), text)
        if self._table.get(name) is config:  # it may be gone by now
            self._encoded[name] = config, piece
        return piece

    def _put(self, config: SubscriptionGroupConfig) -> None:
        event = "changed" if config.group_name in self._table else "created"
        self._table[config.group_name] = config
        log.info("group_%s config=%s", event, config)
        self._next_version(config.group_name)

    def _take(self, change: GroupsChange) -> None:
        """Do again what was done before the last stop, which was none in order."""
        for name in (*change.deleted, *change.subscription_group_table):
            self._table.pop(name, None)
            self._forbidden.pop(name, None)
        self._table.update(change.subscription_group_table)
        self._forbidden.update(change.forbidden_table)
        assert change.data_version is not None
        self.data_version = change.data_version

    def _next_version(self, name: str) -> None:
        self.data_version = msgspec.structs.replace(
            self.data_version, timestamp=self._now_ms(), counter=self.data_version.counter + 1
        )
        self.file.mark()
        self._changed[name] = self.file.marked


def _decode(data: bytes) -> SubscriptionGroupWrapper:
    return decode_table(SubscriptionGroupWrapper, data)
