"""A look at a cluster, and changes to it, over the same protocol that mqadmin speaks."""

import asyncio
from functools import cached_property
from typing import Final

from aerobee.admin.access import AccessAdmin
from aerobee.admin.brokers import BrokerAdmin
from aerobee.admin.calls import AdminCalls
from aerobee.admin.copies import CopyEnd
from aerobee.admin.dead_letters import DeadLetterAdmin
from aerobee.admin.doctor import Doctor
from aerobee.admin.groups import GroupAdmin
from aerobee.admin.metadata import MetadataAdmin
from aerobee.admin.offsets import OffsetAdmin
from aerobee.admin.publishing import PublishAdmin
from aerobee.admin.reading import MessageAdmin
from aerobee.admin.topics import TopicAdmin
from aerobee.admin.tracks import TrackAdmin
from aerobee.remoting.bodies import TopicList
from aerobee.remoting.codes import RequestCode

TOPICS_AT_ONCE: Final = 256  # routes that are asked for side by side


class AdminClient(AdminCalls):
    """Lists and changes what a cluster has (DefaultMQAdminExt.java).

        async with AdminClient("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=8)
            print((await admin.group.describe("billing")).lag)

    What it does is sorted as the commands are: `aerobee topic describe` is `admin.topic.describe`.
    """

    @cached_property
    def topic(self) -> TopicAdmin:
        """Topics: list, describe, create, alter, delete."""
        return TopicAdmin(self)

    @cached_property
    def group(self) -> GroupAdmin:
        """Consumer groups: list, describe, create, delete."""
        return GroupAdmin(self)

    @cached_property
    def offset(self) -> OffsetAdmin:
        """Offsets of groups: plan a reset, apply it."""
        return OffsetAdmin(self, self.group, self.topic)

    @cached_property
    def message(self) -> MessageAdmin:
        """Messages where they lie: browse, find, follow."""
        return MessageAdmin(self, self.topic)

    @cached_property
    def track(self) -> TrackAdmin:
        """The path of a message: its records, and how each group stands to it."""
        return TrackAdmin(self, self.topic, self.group, self.offset, self.message)

    @cached_property
    def publish(self) -> PublishAdmin:
        """Messages sent by hand, one at a time."""
        return PublishAdmin(self)

    @cached_property
    def dead_letter(self) -> DeadLetterAdmin:
        """Dead letters of groups: list; `aerobee.admin.dead_letters` sends them again."""
        return DeadLetterAdmin(self.topic)

    @cached_property
    def copy_end(self) -> CopyEnd:
        """This cluster as an end of a copy (`aerobee.admin.copies.TopicCopy`)."""
        return CopyEnd(self, self.group, self.offset, self.message)

    @cached_property
    def broker(self) -> BrokerAdmin:
        """Brokers: their state and settings, write permission, draining."""
        return BrokerAdmin(self, self.group, self.topic)

    @cached_property
    def access(self) -> AccessAdmin:
        """Users and their policies: list, make, change, delete, copy."""
        return AccessAdmin(self)

    @cached_property
    def doctor(self) -> Doctor:
        """Looks for what keeps clients from their messages."""
        return Doctor(self, self.broker, self.group)

    @cached_property
    def metadata(self) -> MetadataAdmin:
        """Topics and groups as a file: read, compare, apply."""
        return MetadataAdmin(self, self.topic, self.group)

    async def topics(self) -> list[str]:
        """List the topics of all clusters, RocketMQ's own included, sorted."""
        listed = await self.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList)
        return sorted(listed.topic_list)

    async def queues(self, topic: str) -> dict[str, int]:
        """Return how many queues of a topic can be read, by broker name; {} if nobody has it."""
        route = await self.route(topic)
        if route is None:
            return {}
        return {data.broker_name: data.read_queue_nums for data in route.queue_datas}

    async def all_queues(self) -> dict[str, dict[str, int]]:
        """Return for every topic what `queues` does, topics sorted."""
        topics = await self.topics()
        found: dict[str, dict[str, int]] = {}
        for at in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[at : at + TOPICS_AT_ONCE]
            answers = await asyncio.gather(*map(self.queues, some))
            found.update(zip(some, answers, strict=True))
        return found
