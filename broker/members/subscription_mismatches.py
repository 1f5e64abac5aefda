"""Members of one group that want different things, and so lose messages: who, and what.

A group has one subscription for each topic, that of whichever member's heartbeat was newer. What
another member wants beside it is filtered out for that member, too; in RocketMQ nobody is told.
"""

import logging
from collections.abc import Callable
from typing import Final

from aerobee.broker.members.group import ConsumerGroup, Member
from aerobee.broker.rules.names import retry_topic
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.words import TAG

log = logging.getLogger(__name__)

NONE: Final = "none"  # said of members that want nothing of a topic that others want
NAMED_MAX: Final = 5  # members in one log line, for each subscription

Differences = dict[str, dict[str, list[str]]]


class SubscriptionMismatches:
    """Warns once of each way in which the members of a group differ; `warned` counts it.

    A member that wants something else with every heartbeat fills no disk: see `Complaints`.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.warned = 0
        self._complaints = Complaints(clock_ms, log)
        self._known: dict[str, frozenset[object]] = {}

    def __len__(self) -> int:
        """How many groups differ at present."""
        return len(self._known)

    def __contains__(self, group_name: str) -> bool:
        """Whether the members of a group differ."""
        return group_name in self._known

    def look(self, group: ConsumerGroup) -> None:
        """Compare what the members want, after any of them came, went or spoke."""
        if len(group.kinds) < 2:
            self._known.pop(group.name, None)
            return
        kinds = frozenset(group.kinds)
        if self._known.get(group.name) == kinds:
            return
        found = differences(group)
        if not found:
            self._known.pop(group.name, None)
            return
        self._known[group.name] = kinds
        self.warned += 1
        for topic, subscriptions in found.items():
            said = "; ".join(
                f"{what} of {','.join(members[:NAMED_MAX])}"
                + (f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else "")
                for what, members in subscriptions.items()
            )
            self._complaints.tell(
                "subscriptions differ, messages are lost group=%s topic=%s subscriptions=%.2000s",
                group.name,
                topic,
                said,
            )


def differences(group: ConsumerGroup) -> Differences:
    """Return the topics on which members differ: client ids by what they want of the topic.

    The group's own retry topic is left out: consumers subscribe to it or not by their kind.
    """
    if len(group.kinds) < 2:
        return {}
    topics = {topic for member in group.members.values() for topic in member.wishes}
    found: Differences = {}
    for topic in sorted(topics - {retry_topic(group.name)}):
        by_wish: dict[str, list[str]] = {}
        for member in group.members.values():
            by_wish.setdefault(_wanted(member, topic), []).append(member.client.client_id)
        if len(by_wish) > 1:
            found[topic] = by_wish
    return found


def _wanted(member: Member, topic: str) -> str:
    wish = member.wishes.get(topic)
    return NONE if wish is None else f"{wish.expression_type or TAG} {wish.expression!r}"
