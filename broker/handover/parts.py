"""A broker's consumers as a room: who is there, and who has which queue."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aerobee.broker.handover.broker_environment import BrokerEnvironment, WaitingPulls
from aerobee.broker.handover.environment import HandoverLimits
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.member_calls import MemberCalls
from aerobee.broker.handover.queue_locks import QueueLocks
from aerobee.broker.health.background import Background
from aerobee.broker.members.limits import MemberLimits
from aerobee.broker.members.notices import ChangeNotices
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls.held import Holds
from aerobee.broker.room import Room, Sample, Work
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.queues import TopicQueues
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.clocks import steady_clock_ms

EXPIRY_INTERVAL_S: Final = 10.0  # ClientHousekeepingService


METRICS: Final = {
    "aerobee_owned_queues": "Queues of clustering groups of which the broker knows the owner",
    "aerobee_held_offset_requests": "Members that wait until a queue's owner has given it up",
    "aerobee_queue_handovers_total": "Queues that changed hands, by what ended the waiting",
    "aerobee_ignored_commits_total": "Commits of members that had lost the queue",
    "aerobee_differing_groups": "Groups whose members subscribe differently and lose messages",
    "aerobee_differing_groups_total": "How often members were found to subscribe differently",
}


class Consumers(Room):
    """The registries of members, locks and owners, made and connected.

    `background` runs what has to wait for a member's answer.
    """

    def __init__(
        self,
        live: Live,
        tables: Tables,
        queues: TopicQueues,
        holds: Holds,
        background: Background,
    ) -> None:
        self._live, first = live, live.current
        notices = ChangeNotices(
            asyncio.get_running_loop().call_later,
            lambda: live.current.notify_consumer_ids_changed_enable,
        )
        self.members = members = Members(
            lambda group, told: self.handovers.notify(group, told),
            steady_clock_ms,
            tables.groups.is_read_forbidden,
            MemberLimits(first.memberships_max, first.subscription_bytes_max),
        )
        self.locks = QueueLocks(steady_clock_ms, first.owned_queues_max, members.is_member)
        calls = MemberCalls(members, notices, background.run, background.faults, first.broker_name)
        pulls = WaitingPulls(holds, queues)
        self.handovers = Handovers(
            members,
            BrokerEnvironment(first.broker_name, calls, pulls, tables.offsets, self.locks),
            HandoverLimits(
                lambda: live.current.handover_wait_millis,
                lambda: live.current.handover_drain_millis,
                first.owned_queues_max,
            ),
        )
        members.watchers.append(self.handovers)
        live.on_change(lambda _: self.handovers.settings_changed())
        tables.topics.on_changed.append(self._topic_changed)
        self.on_closed = (members.closed, self.handovers.closed)

    def background(self) -> Iterable[Work]:
        """Disconnect who is silent."""
        return (Work("expiry", self._expire, EXPIRY_INTERVAL_S),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of owners, hand-overs, and members that differ."""
        return METRICS

    def samples(self) -> Iterator[Sample]:
        """Yield how many there are, and were."""
        handovers, mismatches = self.handovers, self.members.mismatches
        yield Sample("aerobee_owned_queues", handovers.owned)
        yield Sample("aerobee_held_offset_requests", handovers.waiting)
        for why, count in list(handovers.given.items()):
            yield Sample("aerobee_queue_handovers_total", count, {"reason": why.replace(" ", "_")})
        yield Sample("aerobee_ignored_commits_total", handovers.commits_ignored)
        yield Sample("aerobee_differing_groups", len(mismatches))
        yield Sample("aerobee_differing_groups_total", mismatches.warned)

    def _expire(self) -> None:
        expired_ms = self._live.current.channel_expired_timeout
        for connection in self.members.expire(expired_ms, int(EXPIRY_INTERVAL_S * 1000)):
            connection.close("no heartbeat")

    def _topic_changed(self, config: TopicConfig) -> None:
        for group in self.members.groups_of_topic(config.topic_name):
            self.handovers.topic_changed(group, config.topic_name)
