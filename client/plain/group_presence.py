"""A plain pull consumer's presence in its group: seen by operators, owner of nothing."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.client.group.ownership import Ownership
from aerobee.client.group.running_info import describe, identity
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.statistics import ConsumeStatistics
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import (
    ConsumeDirectlyResult,
    ConsumerConnection,
    ConsumerData,
    ConsumerRunningInfo,
    decode_body,
)
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.headers.groups import ConsumerConnectionRequest
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import CLUSTERING, CONSUME_ACTIVELY

log = logging.getLogger(__name__)

VERSION: Final = 0  # of every subscription: brokers tell by it who shares no queues


class GroupPresence:
    """The group's entry in heartbeats for the topics that a pull consumer names.

    It is what DefaultMQPullConsumerImpl.java says of its registerTopics: consumed actively, all
    tags, version 0. It owns no queue, so that brokers neither hold its requests nor wait for it.
    """

    ownership: Ownership | None = None

    def __init__(self, instance: ClientInstance, group: str, topics: Iterable[str]) -> None:
        """Describe the presence of `group` at `instance`; `join` begins it."""
        self.group = group
        self._instance = instance
        self._started_ms = wall_clock_ms()
        self._listed = False
        self._left = False
        self._changed = False  # members came or went since the latest look began
        self._looking = False
        self._looks = Tasks()
        self._subscriptions = {topic: Subscription(topic, version=VERSION) for topic in topics}

    async def join(self) -> None:
        """Heartbeat to the brokers of all the topics.

        Raises InvalidUse where members of the group share queues among them: they would count this
        consumer in, and nobody would read its share. A broker that cannot be reached is not asked.
        """
        await self._instance.routes.refresh_all(self._subscriptions)
        if address := await self._where_shared():
            raise InvalidUse(
                f"group {self.group!r} has members on {address} that share queues, and would leave"
                " a part of them to this consumer: name no topics, or use another group"
            )
        if not self._left:
            self._listed = True
            await self._instance.add_consumer(self)

    async def leave(self) -> None:
        """Tell all brokers that the group's consumer here is gone."""
        self._left = True
        await self._looks.close()
        if self._listed:
            self._listed = False
            await self._instance.leave(self)

    def vanish(self) -> None:
        """Leave as `leave` does, without waiting for anything; nothing if that is done."""
        self._left = True
        self._looks.cancel()
        if self._listed:
            self._listed = False
            self._instance.vanish(self)

    def members_changed(self) -> None:
        """Look whether members have come that share queues; if so, be listed no more."""
        self._changed = True
        if not self._looking:
            self._looking = True
            self._looks.start(self._look(), f"members of {self.group}")

    async def _look(self) -> None:
        """Look once after all the changes that came during the look before."""
        try:
            while self._changed:
                self._changed = False
                if address := await self._where_shared():
                    log.warning(
                        "pull consumer listed no more, members share queues group=%s broker=%s",
                        self.group,
                        address,
                    )
                    await self.leave()
        finally:
            self._looking = False

    async def _where_shared(self) -> str | None:
        """Return the address of a broker with other members than plain pull consumers."""
        tables = self._instance.routes.brokers.values()
        for address in sorted({address for brokers in tables for address in brokers.values()}):
            if await self._is_shared(address):
                return address
        return None

    async def _is_shared(self, address: str) -> bool:
        header = ConsumerConnectionRequest(consumer_group=self.group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        try:
            reply = await self._instance.connections.request(address, code, header)
        except (BrokerRefused, Unavailable):  # it has no member there, as a rule
            return False
        known = decode_body(ConsumerConnection, reply.body).subscription_table.values()
        return any(subscription.sub_version > VERSION for subscription in known)

    # --- what the instance asks ---

    def topics(self) -> Iterable[str]:
        """The topics that were named."""
        return self._subscriptions

    def heartbeat_data(self) -> ConsumerData:
        """This consumer as heartbeats describe it."""
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_ACTIVELY,
            message_model=CLUSTERING,
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=[each.body() for each in self._subscriptions.values()],
            unit_mode=False,
        )

    async def persist_offsets(self) -> None:
        """Store nothing: offsets are the caller's affair."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Move nothing: it is the caller who says from where to pull."""

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult | None:
        """Handle nothing: there is no handler."""
        return None

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer to an operator (GET_CONSUMER_RUNNING_INFO)."""
        properties = identity(self.group, CONSUME_ACTIVELY, CLUSTERING, self._started_ms)
        return describe({}, self._subscriptions.values(), ConsumeStatistics(), None, properties)
