"""What an instance needs of the consumers that live in it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from aerobee.client.message import MessageQueue
from aerobee.client.rebalance import Ownership
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo


class Consumer(Protocol):
    """A consumer that is a member of a group (MQConsumerInner.java)."""

    group: str
    ownership: Ownership | None  # None: the queues are given, not shared

    def topics(self) -> Iterable[str]:
        """Topics whose routes have to be kept fresh."""
        ...

    def heartbeat_data(self) -> ConsumerData:
        """The group's entry in a heartbeat."""
        ...

    def members_changed(self) -> None:
        """Members of the group came or went, says a broker."""
        ...

    async def persist_offsets(self) -> None:
        """Store what was consumed; called every few seconds."""
        ...

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets with those of the queues that are read here."""
        ...

    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing at this moment."""
        ...

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult | None:
        """Handle a message now; None from a consumer without handlers."""
        ...
