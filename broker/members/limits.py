"""What the registries of connected clients may hold, and what heartbeats have put there so far."""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from aerobee.broker.members.group import Wish
from aerobee.broker.members.subscriptions import is_tag_type
from aerobee.remoting.bodies import SubscriptionData
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

SUBSCRIPTION_BYTES: Final = 1_000  # of memory, beside its text
WISH_BYTES: Final = 150  # of memory: one member's version of a subscription, beside its text
TAG_BYTES: Final = 100  # of memory: the tag, its hash, and the hash in the filter
COMPILED_BYTES_PER_CHAR: Final = 250  # of an SQL92 expression once it is compiled


class MemberLimits(msgspec.Struct):
    """Counts memberships (one client in one group) and the memory of subscriptions, about.

    Both are of all clients together: a heartbeat adds to the groups of those before it.
    """

    memberships_max: int = 1_000_000
    subscription_bytes_max: int = 256 << 20
    memberships: int = 0
    subscription_bytes: int = 0

    def join(self) -> None:
        """Count one more membership; raises RequestError where that is too many."""
        if self.memberships >= self.memberships_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{self.memberships} memberships of groups, membershipsMax is the limit",
            )
        self.memberships += 1

    def leave(self) -> None:
        """Count one membership less."""
        self.memberships -= 1

    def keep(self, subscription: SubscriptionData) -> None:
        """Count a subscription; raises RequestError where all together are too large."""
        self._add(size(subscription), "a subscription")

    def drop(self, subscription: SubscriptionData) -> None:
        """Count a subscription that is gone."""
        self.subscription_bytes -= size(subscription)

    def keep_wishes(self, wishes: Collection[Wish]) -> None:
        """Count what one member wants; raises RequestError where all together are too large."""
        self._add(sum(map(wish_size, wishes)), f"{len(wishes)} subscriptions")

    def drop_wishes(self, wishes: Iterable[Wish]) -> None:
        """Count what one member wants no more."""
        self.subscription_bytes -= sum(map(wish_size, wishes))

    def _add(self, added: int, what: str) -> None:
        if self.subscription_bytes + added > self.subscription_bytes_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{what} of some {added} bytes: all take {self.subscription_bytes}, "
                f"subscriptionBytesMax is {self.subscription_bytes_max}",
            )
        self.subscription_bytes += added


def size(subscription: SubscriptionData) -> int:
    """Estimate the memory that a subscription and its filter take, in bytes."""
    tags = len(subscription.tags_set) + len(subscription.code_set)
    text = (
        len(subscription.topic) + len(subscription.sub_string) + len(subscription.expression_type)
    )
    size = SUBSCRIPTION_BYTES + 4 * text + TAG_BYTES * tags + sum(map(len, subscription.tags_set))
    if not is_tag_type(subscription.expression_type):
        size += COMPILED_BYTES_PER_CHAR * len(subscription.sub_string)
    return size


def wish_size(wish: Wish) -> int:
    """Estimate the memory that one member's wish takes, in bytes."""
    return WISH_BYTES + 4 * len(wish.expression)
