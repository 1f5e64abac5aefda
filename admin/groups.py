"""Consumer groups: who is in them, how far they are, and changes (200, 201, 203, 207, 208, 307)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from aerobee.admin.calls import AdminCalls, Answers, side_by_side
from aerobee.admin.pages import all_groups
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.client.message import GROUP_CHARACTERS_MAX, check_name
from aerobee.remoting.bodies import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionData,
    SubscriptionGroupConfig,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.groups import (
    ConsumerConnectionRequest,
    ConsumeStatsRequest,
    DeleteGroupRequest,
)
from aerobee.remoting.headers.heartbeat import ConsumerRunningInfoRequest
from aerobee.remoting.headers.topics import DeleteTopicRequest
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX

STATS_TIMEOUT_MS: Final = 15_000
OWNERS_ASKED_MAX: Final = 200
"""Members that are asked which queues they have; of more nobody wants to read it."""
TOOLS_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_OWNER", "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
    }
)  # fmt: skip
"""Groups that each broker has for tools (MixAll.java)."""
COPY_PREFIX: Final = "aerobee-copy-"
RESEND_PREFIX: Final = "aerobee-resend-"
MARK_SUFFIX: Final = "-aerobee-mark"
"""Names under which copies and resends of ours keep their places."""


class ConnectedMember(msgspec.Struct, frozen=True):
    """A connected member of a group, as brokers know it; `brokers` are those it is connected to."""

    client_id: str
    address: str
    language: str
    version: int
    brokers: tuple[str, ...]


class GroupProgress(msgspec.Struct, frozen=True):
    """How far a group is in one queue: `committed` is the offset of the message that is next.

    `last_ms` is when the message was stored that it consumed last, in ms since 1970, 0 if nobody
    knows; `owner` is the client id of the member that has the queue, "" if nobody tells.
    """

    topic: str
    broker: str
    queue_id: int
    committed: int
    end: int
    last_ms: int
    owner: str = ""

    @property
    def lag(self) -> int:
        """How many messages of the queue are yet to be consumed."""
        return max(self.end - self.committed, 0)


class GroupDescription(msgspec.Struct, frozen=True):
    """A group: its settings by broker, its members and what they want, and its queues.

    `subscriptions` are by topic, as the last heartbeat told them; `failed` names the brokers that
    did not answer, and why.
    """

    group: str
    configs: dict[str, SubscriptionGroupConfig]
    members: list[ConnectedMember]
    subscriptions: dict[str, SubscriptionData]
    message_model: str
    queues: list[GroupProgress]
    pulls_per_second: float
    failed: dict[str, AerobeeError]

    @property
    def lag(self) -> int:
        """How many messages are yet to be consumed, those that are tried again among them."""
        return sum(queue.lag for queue in self.queues)


class GroupAdmin:
    """Lists, describes, makes and deletes consumer groups.

    async with AdminClient("127.0.0.1:9876") as admin:
        described = await admin.group.describe("billing")
        print(described.lag, [member.client_id for member in described.members])
    """

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin

    async def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Answers[dict[str, SubscriptionGroupConfig]]:
        """Return every group of every master, by the brokers' names; 2000 are read at a time."""
        masters = await self._admin.masters_of(cluster, broker)
        return await self._admin.each(masters, lambda each: all_groups(self._admin, each))

    async def describe(
        self,
        group: str,
        *,
        owners: bool = True,
        known: Answers[dict[str, SubscriptionGroupConfig]] | None = None,
    ) -> GroupDescription:
        """Return how a group stands; raises InvalidUse where no broker has it.

        With `owners` its members are asked which queues they have; who does not answer owns none.
        `known` is what `configs` has returned lately; without it all groups are read for this one.
        """
        masters = await self._admin.masters_of()
        progress = await self.progress(group, masters)
        connected = await self.connections(group, masters)
        configs = known if known is not None else await self.configs()
        mine = {name: found[group] for name, found in configs.found.items() if group in found}
        failed = configs.failed | progress.failed | connected.failed
        online = {name: found for name, found in connected.found.items() if found is not None}
        if not mine and not online and not failed:
            names = ", ".join(sorted(configs.found))
            raise InvalidUse(
                f"no group {group!r} on {names}; `aerobee group list` shows what there is"
            )
        members = _members(online)
        found = await self._owners(group, members, masters) if owners else {}
        tables = [each.offset_table.items() for each in progress.found.values()]
        queues = [
            GroupProgress(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                offsets.consumer_offset,
                offsets.broker_offset,
                offsets.last_timestamp,
                found.get((queue.topic, queue.broker_name, queue.queue_id), ""),
            )
            for table in tables
            for queue, offsets in table
        ]
        subscriptions: dict[str, SubscriptionData] = {}
        for connection in online.values():
            subscriptions |= connection.subscription_table
        return GroupDescription(
            group,
            mine,
            members,
            dict(sorted(subscriptions.items())),
            next((each.message_model for each in online.values()), ""),
            sorted(queues, key=lambda each: (each.topic, each.broker, each.queue_id)),
            sum(stats.consume_tps for stats in progress.found.values()),
            failed,
        )

    async def progress(
        self, group: str, masters: Iterable[BrokerEntry], topic: str | None = None
    ) -> Answers[ConsumeStats]:
        """Return how far a group is on each broker, in one topic or in all."""
        header = ConsumeStatsRequest(consumer_group=group, topic=topic)

        async def ask(address: str) -> ConsumeStats:
            code = RequestCode.GET_CONSUME_STATS
            return await self._admin.ask_broker(
                address,
                code,
                ConsumeStats,
                header,
                timeout_ms=self._admin.at_least(STATS_TIMEOUT_MS),
            )

        return await self._admin.each(list(masters), ask)

    async def connections(
        self, group: str, masters: Iterable[BrokerEntry]
    ) -> Answers[ConsumerConnection | None]:
        """Return who of a group is connected to each broker; None where nobody is."""
        header = ConsumerConnectionRequest(consumer_group=group)

        async def ask(address: str) -> ConsumerConnection | None:
            code = RequestCode.GET_CONSUMER_CONNECTION_LIST
            try:
                return await self._admin.ask_broker(address, code, ConsumerConnection, header)
            except BrokerRefused as error:
                if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                    return None
                raise

        return await self._admin.each(list(masters), ask)

    async def stacks(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """Return what a member does, and where each of its threads is (`jstack`), as it tells.

        Raises InvalidUse for one that is not connected, BrokerRefused where it does not answer.
        """
        masters = await self._admin.masters_of()
        online = (await self.connections(group, masters)).found
        members = _members({name: each for name, each in online.items() if each is not None})
        member = next((each for each in members if each.client_id == client_id), None)
        if member is None:
            known = ", ".join(each.client_id for each in members) or "none"
            raise InvalidUse(f"group {group!r} has no member {client_id!r}; there is {known}")
        address = next(each.address for each in masters if each.name in member.brokers)
        header = ConsumerRunningInfoRequest(
            consumer_group=group, client_id=client_id, jstack_enable=True
        )
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        return await self._admin.ask_broker(
            address,
            code,
            ConsumerRunningInfo,
            header,
            timeout_ms=self._admin.at_least(STATS_TIMEOUT_MS),
        )

    async def producers(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Answers[dict[str, list[ProducerInfo]]]:
        """Return the connected producers of each master, by their groups (328)."""
        masters = await self._admin.masters_of(cluster, broker)

        async def ask(address: str) -> dict[str, list[ProducerInfo]]:
            code = RequestCode.GET_ALL_PRODUCER_INFO
            return (await self._admin.ask_broker(address, code, ProducerTableInfo)).data

        return await self._admin.each(masters, ask)

    async def running(
        self, group: str, member: ConnectedMember, masters: Iterable[BrokerEntry]
    ) -> ConsumerRunningInfo | None:
        """Return what a member says that it does; None if it does not answer."""
        address = next((each.address for each in masters if each.name in member.brokers), None)
        if address is None:
            return None
        header = ConsumerRunningInfoRequest(consumer_group=group, client_id=member.client_id)
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        try:
            return await self._admin.ask_broker(address, code, ConsumerRunningInfo, header)
        except AerobeeError:
            return None

    async def put(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Let one broker have a group as it is here."""
        await self._admin.connections.request(
            address,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=encode_body(config),
        )

    async def create(
        self,
        config: SubscriptionGroupConfig,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[BrokerEntry]:
        """Make a group, or give it these settings, on the masters of a cluster; return these."""
        check_name("group", config.group_name, GROUP_CHARACTERS_MAX)
        masters = await self._admin.masters_of(cluster, broker)
        for master in masters:
            await self.put(master.address, config)
        return masters

    async def alter(
        self,
        group: str,
        changes: Mapping[str, Any],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, tuple[SubscriptionGroupConfig, SubscriptionGroupConfig]]:
        """Change fields of a group's settings wherever it is; return by broker how it was and is.

        Raises InvalidUse where no chosen broker has it.
        """
        masters = await self._admin.masters_of(cluster, broker)
        answers = await self._admin.each(masters, lambda each: all_groups(self._admin, each))
        known = answers.or_raise()
        changed = {
            master.name: (before, msgspec.structs.replace(before, **changes))
            for master in masters
            if (before := known[master.name].get(group)) is not None
        }
        if not changed:
            names = ", ".join(master.name for master in masters)
            raise InvalidUse(
                f"no group {group!r} on {names}; `aerobee group create {group}` makes it"
            )
        for master in masters:
            if master.name in changed:
                await self.put(master.address, changed[master.name][1])
        return changed

    async def delete(
        self, group: str, *, cluster: str | None = None, dead_letters: bool = False
    ) -> list[BrokerEntry]:
        """Delete a group, its offsets and what it was to try again; return the brokers.

        Its dead letters stay unless they are meant, too. Raises InvalidUse while members are
        connected: they would make it again, without its settings.
        """
        masters = await self._admin.masters_of(cluster)
        online = (await self.connections(group, masters)).or_raise()
        members = _members({name: each for name, each in online.items() if each is not None})
        if members:
            who = ", ".join(f"{each.client_id} at {each.address}" for each in members[:4])
            raise InvalidUse(f"group {group!r} has {len(members)} members ({who}): stop them first")
        header = DeleteGroupRequest(group_name=group, clean_offset=True)
        topics = [RETRY_PREFIX + group] + [DLQ_PREFIX + group] * dead_letters
        for master in masters:
            await self._admin.connections.request(
                master.address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header
            )
            for topic in topics:
                await self._admin.connections.request(
                    master.address,
                    RequestCode.DELETE_TOPIC_IN_BROKER,
                    DeleteTopicRequest(topic=topic),
                )
        for topic in topics:
            await self._admin.tell_nameservers(
                RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicRequest(topic=topic)
            )
        return masters

    async def _owners(
        self, group: str, members: list[ConnectedMember], masters: Iterable[BrokerEntry]
    ) -> dict[tuple[str, str, int], str]:
        """Ask members for their queues; return who has which."""
        entries = list(masters)
        asked = {each.client_id: each for each in members[:OWNERS_ASKED_MAX]}

        async def ask(client_id: str) -> ConsumerRunningInfo | None:
            return await self.running(group, asked[client_id], entries)

        owners: dict[tuple[str, str, int], str] = {}
        for client_id, info in (await side_by_side(asked, ask)).items():
            for queue, state in info.mq_table.items() if info is not None else ():
                if not state.droped:
                    owners[queue.topic, queue.broker_name, queue.queue_id] = client_id
        return owners


def is_own_group(group: str) -> bool:
    """Whether brokers made a group for themselves, or for tools."""
    return (
        group in TOOLS_GROUPS
        or group.startswith((SYSTEM_GROUP_PREFIX, COPY_PREFIX, RESEND_PREFIX))
        or group.endswith(MARK_SUFFIX)
    )


def _members(connections: dict[str, ConsumerConnection]) -> list[ConnectedMember]:
    """Put together who is connected to which brokers."""
    found: dict[str, ConnectedMember] = {}
    for broker, connection in connections.items():
        for each in connection.connection_set:
            known = found.get(each.client_id)
            brokers = (*known.brokers, broker) if known is not None else (broker,)
            found[each.client_id] = ConnectedMember(
                each.client_id, each.client_addr, each.language, each.version, brokers
            )
    return [found[client_id] for client_id in sorted(found)]
