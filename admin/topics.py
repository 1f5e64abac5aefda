"""Topics: what there is, how they stand, and changes to them (17, 21, 105, 202, 215, 216, 300)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, Answers
from aerobee.admin.pages import all_topics
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.client.message import check_topic
from aerobee.remoting.bodies import GroupList, TopicConfig, TopicStatsTable
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.groups import ConsumeByWhoRequest
from aerobee.remoting.headers.topics import CreateTopicRequest, DeleteTopicRequest, TopicRequest
from aerobee.remoting.words import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    ROCKSDB_TOPICS,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
)

MESSAGE_TYPE: Final = "message.type"
"""The attribute of a topic that says which messages it takes: NORMAL, FIFO, DELAY, TRANSACTION."""
MESSAGE_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


class QueueBounds(msgspec.Struct, frozen=True):
    """One queue of a topic: offsets count messages, `newest_ms` is since 1970, 0 for none."""

    broker: str
    queue_id: int
    begin: int
    end: int
    newest_ms: int


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic as its brokers have it: settings by broker, queues, and the groups that consume it.

    `failed` names the brokers that did not answer, and why.
    """

    topic: str
    configs: dict[str, TopicConfig]
    queues: list[QueueBounds]
    groups: list[str]
    puts_per_second: float
    failed: dict[str, AerobeeError]

    @property
    def messages(self) -> int:
        """How many messages its queues have at present."""
        return sum(queue.end - queue.begin for queue in self.queues)


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic is to be on each broker; None leaves a setting as it is.

    `perm` holds Perm bits; of `attributes` those named here get these values, None removes one.
    """

    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: Mapping[str, str | None] = {}

    def over(self, config: TopicConfig) -> TopicConfig:
        """Return the settings of a topic with these changes."""
        given = {
            "read_queue_nums": self.read_queues,
            "write_queue_nums": self.write_queues,
            "perm": self.perm,
            "order": self.order,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        attributes = dict(config.attributes)
        for name, value in self.attributes.items():
            if value is None:
                attributes.pop(name, None)
            else:
                attributes[name] = value
        return msgspec.structs.replace(config, **changes, attributes=attributes)


class TopicAdmin:
    """Lists, describes, makes, changes and deletes topics.

    async with AdminClient("127.0.0.1:9876") as admin:
        await admin.topic.create("orders", TopicSettings(read_queues=8, write_queues=8))
        print((await admin.topic.describe("orders")).messages)
    """

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin

    async def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Answers[dict[str, TopicConfig]]:
        """Return every topic of every master, by the brokers' names, RocketMQ's own among them.

        They are read 2000 at a time; a broker that is away costs only its own.
        """
        masters = await self._admin.masters_of(cluster, broker)
        return await self._admin.each(masters, lambda each: all_topics(self._admin, each))

    async def describe(self, topic: str) -> TopicDescription:
        """Return how a topic stands on all its brokers; raises InvalidUse where there is none."""
        addresses = await self._admin.masters_with(topic)
        configs = await self._admin.each(addresses, lambda each: self._config(each, topic))
        stats = await self._admin.each(addresses, lambda each: self.stats(each, topic))
        groups = await self._admin.each(addresses, lambda each: self._groups(each, topic))
        queues = [
            QueueBounds(
                place.broker_name,
                place.queue_id,
                offsets.min_offset,
                offsets.max_offset,
                offsets.last_update_timestamp,
            )
            for table in stats.found.values()
            for place, offsets in table.offset_table.items()
        ]
        return TopicDescription(
            topic,
            {name: config for name, config in configs.found.items() if config is not None},
            sorted(queues, key=lambda queue: (queue.broker, queue.queue_id)),
            sorted({group for found in groups.found.values() for group in found}),
            sum(table.topic_put_tps for table in stats.found.values()),
            groups.failed | stats.failed | configs.failed,
        )

    async def stats(self, address: str, topic: str) -> TopicStatsTable:
        """Return where the queues of a topic begin and end on one broker."""
        header = TopicRequest(topic=topic)
        code = RequestCode.GET_TOPIC_STATS_INFO
        return await self._admin.ask_broker(address, code, TopicStatsTable, header)

    async def create(
        self,
        topic: str,
        settings: TopicSettings,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[BrokerEntry]:
        """Make a topic on the masters of a cluster, or on one of them; return these.

        Raises InvalidUse where one of them has it already, and nothing is changed then.
        """
        check_topic(topic)
        masters = await self._admin.masters_of(cluster, broker)
        known = (await self._admin.each(masters, lambda each: self._config(each, topic))).or_raise()
        if there := [name for name, config in known.items() if config is not None]:
            raise InvalidUse(
                f"{', '.join(there)} has a topic {topic!r} already; `aerobee topic alter {topic}`"
                " changes it"
            )
        made = settings.over(TopicConfig(topic_name=topic, read_queue_nums=8, write_queue_nums=8))
        for master in masters:
            await self.put(master.address, made)
        return masters

    async def alter(
        self,
        topic: str,
        settings: TopicSettings,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, tuple[TopicConfig, TopicConfig]]:
        """Change a topic wherever it is; return by broker how it was and how it is.

        Raises InvalidUse where no chosen broker has it.
        """
        masters = await self._admin.masters_of(cluster, broker)
        known = (await self._admin.each(masters, lambda each: self._config(each, topic))).or_raise()
        changed: dict[str, tuple[TopicConfig, TopicConfig]] = {}
        for master in masters:
            before = known[master.name]
            if before is None:
                continue
            after = settings.over(before)
            if after != before:
                await self.put(master.address, after, before)
            changed[master.name] = before, after
        if not changed:
            names = ", ".join(master.name for master in masters)
            raise InvalidUse(
                f"none of {names} has a topic {topic!r}; `aerobee topic create {topic}` makes it"
            )
        return changed

    async def put(
        self, address: str, config: TopicConfig, before: TopicConfig | None = None
    ) -> None:
        """Let one broker have a topic as it is here; `before` is how it has it now."""
        had = before.attributes if before is not None else {}
        edits = [
            f"+{name}={value}"
            for name, value in config.attributes.items()
            if had.get(name) != value
        ]
        edits += [f"-{name}" for name in had if name not in config.attributes]
        header = CreateTopicRequest(
            topic=config.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=",".join(edits),
        )
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        await self._admin.connections.request(address, code, header)

    async def delete(self, topic: str, *, cluster: str | None = None) -> list[BrokerEntry]:
        """Delete a topic with its messages from every master and nameserver; return the brokers.

        Done twice it does no harm, so that one that was interrupted is simply done again.
        """
        masters = await self._admin.masters_of(cluster)
        header = DeleteTopicRequest(topic=topic)
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        for master in masters:
            await self._admin.connections.request(master.address, code, header)
        for name in sorted({master.cluster for master in masters}):
            of_cluster = DeleteTopicRequest(
                topic=topic, cluster_name=name if cluster is not None else None
            )
            await self._admin.tell_nameservers(RequestCode.DELETE_TOPIC_IN_NAMESRV, of_cluster)
        return masters

    async def _config(self, address: str, topic: str) -> TopicConfig | None:
        """Return one topic as a broker keeps it, None if it has none."""
        header = TopicRequest(topic=topic)
        try:
            return await self._admin.ask_broker(
                address, RequestCode.GET_TOPIC_CONFIG, TopicConfig, header
            )
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise

    async def _groups(self, address: str, topic: str) -> list[str]:
        header = ConsumeByWhoRequest(topic=topic)
        code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
        return (await self._admin.ask_broker(address, code, GroupList, header)).group_list


def perm_text(perm: int) -> str:
    """Write permissions as people read them: "rw", "r", "w", "-"."""
    text = ("r" if perm & Perm.READ else "") + ("w" if perm & Perm.WRITE else "")
    return text or "-"


def is_own_topic(topic: str, brokers: frozenset[str] = frozenset()) -> bool:
    """Whether brokers made a topic for themselves, or for a group; `brokers` are their names and
    their clusters'."""
    names = SYSTEM_TOPICS | ROCKSDB_TOPICS | brokers
    return (
        topic in names
        or topic.startswith((SYSTEM_PREFIX, RETRY_PREFIX, DLQ_PREFIX))
        or (topic.endswith(REPLY_SUFFIX) and topic.removesuffix(REPLY_SUFFIX) in brokers)
    )
