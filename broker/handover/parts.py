"""The parts of a broker that follow its consumers, made and connected."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from aerobee.broker.handover.broker_environment import BrokerEnvironment, WaitingPulls
from aerobee.broker.handover.environment import HandoverLimits
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.member_calls import MemberCalls
from aerobee.broker.handover.queue_locks import QueueLocks
from aerobee.broker.health.faults import Faults
from aerobee.broker.members.limits import MemberLimits
from aerobee.broker.members.notices import ChangeNotices
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls.held import Holds
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.queues import TopicQueues
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.clocks import steady_clock_ms


@dataclass(frozen=True, slots=True)
class MemberParts:
    """Who is there, and who has which queue."""

    members: Members
    locks: QueueLocks
    handovers: Handovers


def follow_members(
    loop: asyncio.AbstractEventLoop,
    live: Live,
    tables: Tables,
    queues: TopicQueues,
    holds: Holds,
    start: Callable[[Coroutine[Any, Any, None]], object],
    faults: Faults,
) -> MemberParts:
    """Make the registries of members, locks and owners.

    `start` runs what has to wait for a member's answer; `faults` counts what nobody foresaw.
    """
    first = live.current
    notices = ChangeNotices(
        loop.call_later, lambda: live.current.notify_consumer_ids_changed_enable
    )
    limits = MemberLimits(first.memberships_max, first.subscription_bytes_max)
    members = Members(
        lambda group, told: handovers.notify(group, told),
        steady_clock_ms,
        tables.groups.is_read_forbidden,
        limits,
    )
    locks = QueueLocks(steady_clock_ms, first.owned_queues_max, members.is_member)
    calls = MemberCalls(members, notices, start, faults, first.broker_name)
    pulls = WaitingPulls(holds, queues)
    handovers = Handovers(
        members,
        BrokerEnvironment(first.broker_name, calls, pulls, tables.offsets, locks),
        HandoverLimits(
            lambda: live.current.handover_wait_millis,
            lambda: live.current.handover_drain_millis,
            first.owned_queues_max,
        ),
    )
    members.watchers.append(handovers)
    live.on_change(lambda _: handovers.settings_changed())

    def topic_changed(config: TopicConfig) -> None:
        for group in members.groups_of_topic(config.topic_name):
            handovers.topic_changed(group, config.topic_name)

    tables.topics.on_changed.append(topic_changed)
    return MemberParts(members, locks, handovers)
