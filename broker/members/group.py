"""A consumer group that is connected: its members, what each wants, and what the group wants."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from aerobee.broker.members.subscriptions import MessageFilter
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import BROADCASTING, CLUSTERING


class GroupQueue(NamedTuple):
    """A queue of this broker as one group consumes it."""

    group: str
    topic: str
    queue_id: int


class Client(msgspec.Struct, frozen=True):
    """How a peer introduced itself in its heartbeat."""

    connection: Connection
    client_id: str
    language: int
    version: int


class Wish(NamedTuple):
    """What one member wants of one topic; `version` is in ms since 1970, 0 for a pull consumer."""

    expression: str
    expression_type: str
    version: int


class Member(msgspec.Struct):
    """One client in one group.

    `wishes` are its own, by topic, where those of its group are whatever the latest heartbeat of
    any member said. `handover_timeout_ms` is None for a client that is not ours. `heard_ms` is
    a time of the steady clock; `Members.silent_ms` says how long ago that is.
    """

    client: Client
    heard_ms: int
    message_model: str = CLUSTERING
    handover_timeout_ms: int | None = None
    wishes: dict[str, Wish] = msgspec.field(default_factory=dict)

    def shares(self, topic: str) -> bool:
        """Whether this member takes its part of a topic's queues, and leaves others theirs.

        Not when broadcasting, nor with given queues (`assign`: no subscription), nor as a pull
        consumer, whose subscriptions have version 0 (DefaultMQPullConsumerImpl.subscriptions).
        """
        wish = self.wishes.get(topic)
        return wish is not None and wish.version > 0 and self.message_model != BROADCASTING


class ConsumerGroup(msgspec.Struct):
    """The consumers of one group that are connected."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    notified: bool = True  # notifyConsumerIdsChangedEnable of its configuration, when last heard
    members: dict[Connection, Member] = msgspec.field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = msgspec.field(default_factory=dict)
    filters: dict[str, MessageFilter | None] = msgspec.field(default_factory=dict)
    kinds: Counter[frozenset[tuple[str, str, str]]] = msgspec.field(default_factory=Counter)

    def client_ids(self) -> list[str]:
        """Return each client once, in the order they came.

        A client that reconnects before its old connection is noticed dead is one consumer; RocketMQ
        lists it twice, and queues are then given to nobody.
        """
        return list(dict.fromkeys(member.client.client_id for member in self.members.values()))

    def describe(self, data: ConsumerData) -> None:
        """Take over how the latest heartbeat describes the group."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where

    def wish(self, member: Member, heard: Iterable[SubscriptionData]) -> list[str]:
        """Remember what a member wants; return the topics whose version has risen since."""
        wishes: dict[str, Wish] = {}
        newer = []
        for subscription in heard:
            known = member.wishes.get(subscription.topic)
            if known is not None and subscription.sub_version > known.version:
                newer.append(subscription.topic)
            wishes[subscription.topic] = self._shared(subscription)
        self.forget(member)
        member.wishes = wishes
        self.count(member)
        return newer

    def count(self, member: Member) -> None:
        """Count a member's wishes among those of the group."""
        self.kinds[_kind(member)] += 1

    def forget(self, member: Member) -> None:
        """Count a member's wishes no more."""
        kind = _kind(member)
        self.kinds[kind] -= 1
        if self.kinds[kind] <= 0:
            del self.kinds[kind]

    def _shared(self, subscription: SubscriptionData) -> Wish:
        """Return a wish that holds no text of its own where the group's is the same."""
        known = self.subscriptions.get(subscription.topic, subscription)
        expression, kind = subscription.sub_string, subscription.expression_type
        return Wish(
            known.sub_string if known.sub_string == expression else expression,
            known.expression_type if known.expression_type == kind else kind,
            subscription.sub_version,
        )


def _kind(member: Member) -> frozenset[tuple[str, str, str]]:
    """Return what a member wants, whatever the versions, to be compared with others'."""
    return frozenset(
        (topic, wish.expression_type, wish.expression) for topic, wish in member.wishes.items()
    )
