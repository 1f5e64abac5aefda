"""Who consumes: one member of a group, as the parts of a consumer know it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from aerobee.client.group.offsets import StartingPoint
from aerobee.client.pulls.subscriptions import Subscription

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance


class Membership(msgspec.Struct, frozen=True):
    """A consumer's place in its group, from its start to its end.

    `subscriptions` change while it lives; `start` says where it begins a queue on which the group
    has no offset. A `broadcasting` member has all the queues: none goes from one to another.
    """

    instance: "ClientInstance"
    group: str
    subscriptions: Mapping[str, Subscription]
    start: StartingPoint
    broadcasting: bool = False
