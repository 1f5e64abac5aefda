"""Who is connected: the consumers of each group with what they subscribed to, and the producers.

Invariants: a connection is a member of a group at most once; a group without members is not in the
table; every change of a group's membership, or of the set of its topics, is told to `notify` once,
except for broadcasting groups and where the group's configuration forbids it. A subscription
replaces another of the same topic only with a higher version, and silently: clients of one group
send different versions all the time (ConsumerManager, ConsumerGroupInfo, ProducerManager).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from aerobee.broker.members.consumer_lists import ConsumerLists
from aerobee.broker.members.group import Client, ConsumerGroup, Member
from aerobee.broker.members.limits import MemberLimits
from aerobee.broker.members.producer_ids import ProducerIds
from aerobee.broker.members.subscription_mismatches import SubscriptionMismatches
from aerobee.broker.members.subscriptions import (
    MessageFilter,
    SqlFilters,
    filter_of,
    is_tag_type,
    wanted_hashes,
)
from aerobee.broker.members.waiting_heartbeats import WaitingHeartbeats
from aerobee.broker.rules.remarks import Forbidden, further_details
from aerobee.remoting.bodies import ConsumerData, SubscriptionData, SubscriptionGroupConfig
from aerobee.remoting.clocks import LateLooks
from aerobee.remoting.codes import PullSysFlag, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.words import BROADCASTING

log = logging.getLogger(__name__)

EXPIRED_MS: Final = 120_000  # channelExpiredTimeout


class Watcher(Protocol):
    """Who follows the members of groups, as the owners of queues are."""

    def joined(self, connection: Connection, group: str) -> None:
        """A connection has become a member."""

    def left(self, connection: Connection, group: str) -> None:
        """A member has left on its own accord, was silent for too long, or its connection ended."""

    def changed(self, group: str) -> None:
        """A group's members, or the topics that they want, are others than before."""

    def rebalanced(self, connection: Connection, group: str, topics: list[str]) -> None:
        """A member says, by newer versions, that its queues of these topics have changed."""


class Members:
    """The registries of consumers and producers; sync, clock and sending injected.

    `notify(group, connections)` sends NOTIFY_CONSUMER_IDS_CHANGED. `is_forbidden(group, topic)`
    tells whether an administrator has closed a topic to a group. `clock_ms` never goes back.
    """

    def __init__(
        self,
        notify: Callable[[str, list[Connection]], None],
        clock_ms: Callable[[], int],
        is_forbidden: Callable[[str, str], bool] = lambda group, topic: False,
        limits: MemberLimits | None = None,
    ) -> None:
        self._notify = notify
        self._clock_ms = clock_ms
        self._is_forbidden = is_forbidden
        self.limits = limits or MemberLimits()
        self.watchers: list[Watcher] = []
        self.may_be_shown: Callable[[Connection, str], bool] = lambda connection, topic: True
        self.mismatches = SubscriptionMismatches(clock_ms)
        self.waiting = WaitingHeartbeats()
        self.lists = ConsumerLists()
        self._lateness = LateLooks(clock_ms)
        self.sql_filters = SqlFilters()  # what pulls bring, not heartbeats
        self.version: object = object()  # another one as soon as a pull may be answered otherwise
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Member]] = {}
        self._producer_ids = ProducerIds()
        self._fingerprints: dict[str, int] = {}  # of each group's latest heartbeat
        self._groups_of: dict[Connection, set[str]] = {}  # consumer groups
        self._producer_groups_of: dict[Connection, set[str]] = {}

    def note_fingerprint(self, group_name: str, fingerprint: int, *, without_sub: bool) -> bool:
        """Return whether the client should send its subscriptions in full (heartbeat V2).

        That is when another client's differ from its own, or when it left them out and none are
        known here, as after a restart of the broker.
        """
        known = self._fingerprints.get(group_name)
        if group_name in self._consumers or not without_sub:
            self._fingerprints[group_name] = fingerprint
        group = self._consumers.get(group_name)
        missing = without_sub and (group is None or not group.subscriptions)
        return missing or (known is not None and known != fingerprint)

    def register_consumer(
        self, client: Client, data: ConsumerData, *, notified: bool, without_sub: bool = False
    ) -> bool:
        """Take one group of a heartbeat; return whether anything changed.

        With `without_sub` (heartbeat V2 of a client whose fingerprint has not changed) only the
        membership is refreshed.
        """
        self.version = object()
        group = self._consumers.get(data.group_name)
        if group is None or client.connection not in group.members:
            self.limits.join()
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(
                data.group_name, data.consume_type, data.message_model, data.consume_from_where
            )
        group.describe(data)
        group.notified = notified
        joined = self._join(group, client)
        member = group.members[client.connection]
        member.message_model = data.message_model
        member.handover_timeout_ms = data.handover_timeout_millis
        changed, newer = False, []
        try:
            if not without_sub:
                changed = self._update_subscriptions(group, data.subscription_data_set)
                newer = self._update_wishes(group, member, data.subscription_data_set)
                self.mismatches.look(group)
        finally:
            if joined or changed:
                self._changed(group)
            for watcher in self.watchers:
                if joined:
                    watcher.joined(client.connection, group.name)
                if newer:
                    watcher.rebalanced(client.connection, group.name, newer)
        return joined or changed

    def unregister_consumer(self, connection: Connection, group_name: str) -> None:
        """A client leaves one group on its own accord."""
        group = self._consumers.get(group_name)
        if group is not None and connection in group.members:
            log.info("consumer_left group=%s remote=%s", group_name, connection.remote)
            self._remove(group, connection)
            self._changed(group)

    def register_producer(self, client: Client, group_name: str) -> None:
        """Take one producer group of a heartbeat."""
        member = self._producers.get(group_name, {}).get(client.connection)
        if member is None:
            self.limits.join()
            members = self._producers.setdefault(group_name, {})
            members[client.connection] = Member(client, self._clock_ms())
            self._producer_ids.join(client)
            self._producer_groups_of.setdefault(client.connection, set()).add(group_name)
        else:
            if member.client.client_id != client.client_id:
                self._producer_ids.leave(member.client)
                self._producer_ids.join(client)
            member.client = client
            member.heard_ms = self._clock_ms()

    def unregister_producer(self, connection: Connection, group_name: str) -> None:
        """A client stops producing for one group."""
        members = self._producers.get(group_name, {})
        if (member := members.pop(connection, None)) is not None:
            self.limits.leave()
            self._producer_ids.leave(member.client)
            self._producer_groups_of[connection].discard(group_name)
            if not self._producer_groups_of[connection]:
                del self._producer_groups_of[connection]
        if not members:
            self._producers.pop(group_name, None)

    def closed(self, connection: Connection) -> None:
        """Forget a connection that is gone; to be called once for every connection."""
        for group_name in sorted(self._groups_of.get(connection, ())):
            log.info("consumer_closed group=%s remote=%s", group_name, connection.remote)
            group = self._consumers[group_name]
            self._remove(group, connection)
            self._changed(group)
        for group_name in list(self._producer_groups_of.get(connection, ())):
            self.unregister_producer(connection, group_name)

    def silent_ms(self, member: Member) -> int:
        """Return how long ago a member's last heartbeat was."""
        return self._clock_ms() - member.heard_ms

    def expire(self, expired_ms: int = EXPIRED_MS, interval_ms: int = 0) -> list[Connection]:
        """Remove members without a heartbeat for `expired_ms`; return connections to be closed.

        With `interval_ms`, how often this is called, a call that comes late removes nobody.
        """
        if interval_ms and self._lateness.is_late(interval_ms, "members"):
            return []
        limit = self._clock_ms() - expired_ms
        silent: dict[Connection, None] = {}
        for group in list(self._consumers.values()):
            gone = [each for each, member in group.members.items() if member.heard_ms < limit]
            for connection in gone:
                log.warning("consumer_expired group=%s remote=%s", group.name, connection.remote)
                silent[connection] = None
                self._remove(group, connection)
            if gone:
                self._changed(group)
        for group_name, members in list(self._producers.items()):
            for connection, member in list(members.items()):
                if member.heard_ms < limit:
                    log.warning(
                        "producer_expired group=%s remote=%s", group_name, connection.remote
                    )
                    silent[connection] = None
                    self.unregister_producer(connection, group_name)
        return list(silent)

    def group(self, name: str) -> ConsumerGroup | None:
        """Return the group if it has members."""
        return self._consumers.get(name)

    def groups(self) -> Iterator[ConsumerGroup]:
        """Yield every consumer group that has members."""
        return iter(list(self._consumers.values()))

    def producers(self) -> dict[str, list[Member]]:
        """Return the producers of every group."""
        return {name: list(members.values()) for name, members in self._producers.items()}

    def producer_connection(self, client_id: str) -> Connection | None:
        """Return the newest connection on which a client produces, None where it is not here."""
        return self._producer_ids.find(client_id)

    def producers_of(self, group_name: str, topic: str) -> list[Connection]:
        """Return the open connections of one group's producers, in the order they came.

        Those that may see what is sent to a topic.
        """
        producers, may_be_shown = self._producers.get(group_name, ()), self.may_be_shown
        return [each for each in producers if not each.closed and may_be_shown(each, topic)]

    def client_ids(self, group_name: str) -> list[str]:
        """Return the clients of a group, each once."""
        group = self._consumers.get(group_name)
        return group.client_ids() if group is not None else []

    def is_member(self, group_name: str, client_id: str) -> bool:
        """Whether a client is in a group, on any connection."""
        group = self._consumers.get(group_name)
        return group is not None and any(
            member.client.client_id == client_id for member in group.members.values()
        )

    def subscription(self, group_name: str, topic: str) -> SubscriptionData | None:
        """Return what a group subscribed to in one topic."""
        group = self._consumers.get(group_name)
        return group.subscriptions.get(topic) if group is not None else None

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the connected groups that subscribed to a topic."""
        return [group.name for group in self._consumers.values() if topic in group.subscriptions]

    def filter_for_pull(
        self, config: SubscriptionGroupConfig, header: PullMessageRequest
    ) -> MessageFilter | None:
        """Return what a pull wants, None for every message; SQL92 has yet to be compiled.

        A pull with the subscription flag brings its expression, any other one relies on its group's
        heartbeats. Raises RequestError with the codes of PullMessageProcessor: 23 for tags that
        cannot be parsed, 24 for an unknown group or topic, 16 for what is not allowed, 25 for SQL92
        when the client's subscription is newer than the one known here. With tags such a client
        gets every message, which RocketMQ refuses, too: clients pick those with their tags in any
        case, and Java's may not send the heartbeat that is missing for half a minute, since each of
        its rebalances makes a new version and a heartbeat under way keeps it from telling that.
        """
        if header.sys_flag & PullSysFlag.SUBSCRIPTION:
            if header.expression_type and not is_tag_type(header.expression_type):
                return self.sql_filters.get(header.subscription or "", header.expression_type)
            return wanted_hashes(header.subscription)
        group = self._consumers.get(header.consumer_group)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                further_details("the consumer's group info not exist"),
            )
        if not config.consume_broadcast_enable and group.message_model == BROADCASTING:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] can not consume by broadcast way",
                Forbidden.BROADCASTING,
            )
        if self._is_forbidden(group.name, header.topic):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] is forbidden for topic[{header.topic}]",
                Forbidden.SUBSCRIPTION,
            )
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                further_details("the consumer's subscription not exist"),
            )
        if subscription.sub_version < header.sub_version:
            if is_tag_type(header.expression_type or subscription.expression_type):
                return None
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return group.filters[header.topic]

    def _join(self, group: ConsumerGroup, client: Client) -> bool:
        member = group.members.get(client.connection)
        if member is not None:
            if member.client.client_id != client.client_id:
                log.error(
                    "client_id_changed group=%s remote=%s old=%s new=%s",
                    group.name,
                    client.connection.remote,
                    member.client.client_id,
                    client.client_id,
                )
            member.client = client
            member.heard_ms = self._clock_ms()
            return False
        group.members[client.connection] = member = Member(client, self._clock_ms())
        group.count(member)
        self._groups_of.setdefault(client.connection, set()).add(group.name)
        log.info("consumer_joined group=%s client=%s remote=%s",
                 group.name, client.client_id, client.connection.remote)  # fmt: skip
        return True

    def _remove(self, group: ConsumerGroup, connection: Connection) -> None:
        self.version = object()
        member = group.members.pop(connection)
        group.forget(member)
        self.limits.leave()
        self.limits.drop_wishes(member.wishes.values())
        groups = self._groups_of[connection]
        groups.discard(group.name)
        if not groups:
            del self._groups_of[connection]
        if not group.members:
            for subscription in group.subscriptions.values():
                self.limits.drop(subscription)
            del self._consumers[group.name]
            self._fingerprints.pop(group.name, None)
            self.lists.forget(group.name)
        self.mismatches.look(group)
        for watcher in self.watchers:
            watcher.left(connection, group.name)

    def _update_subscriptions(
        self, group: ConsumerGroup, heard: Iterable[SubscriptionData]
    ) -> bool:
        """Merge a heartbeat's subscriptions; return whether a topic was added or removed."""
        changed = False
        topics = set()
        for subscription in heard:
            topics.add(subscription.topic)
            known = group.subscriptions.get(subscription.topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.limits.keep(subscription)
                if known is not None:
                    self.limits.drop(known)
                changed |= known is None
                group.subscriptions[subscription.topic] = subscription
                known_filter = group.filters.get(subscription.topic)
                group.filters[subscription.topic] = filter_of(subscription, known_filter)
        for topic in [topic for topic in group.subscriptions if topic not in topics]:
            self.limits.drop(group.subscriptions.pop(topic))
            del group.filters[topic]
            changed = True
        if changed:
            names = ",".join(sorted(topics))
            log.info("subscription_changed group=%s topics=%.500s", group.name, names)
        return changed

    def _update_wishes(
        self, group: ConsumerGroup, member: Member, heard: list[SubscriptionData]
    ) -> list[str]:
        """Remember what the member itself wants; return topics whose version has risen."""
        self.limits.drop_wishes(member.wishes.values())
        newer = group.wish(member, heard)
        try:
            self.limits.keep_wishes(member.wishes.values())
        except RequestError:
            group.wish(member, ())
            raise
        return newer

    def _changed(self, group: ConsumerGroup) -> None:
        for watcher in self.watchers:
            watcher.changed(group.name)
        if group.members and group.notified and group.message_model != BROADCASTING:
            self._notify(group.name, list(group.members))
