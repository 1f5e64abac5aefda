"""What an instance needs of the consumers that live in it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo


class QueueOwner(Protocol):
    """The part of a member that owns its share of the queues, as rounds of rebalancing see it."""

    @property
    def queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """The queues that are owned now."""
        ...

    async def plan(self) -> bool:
        """Learn the share of each topic; False if one could not be told."""
        ...

    def release(self) -> None:
        """Begin to lose the queues that fall to others now."""
        ...

    def take(self) -> None:
        """Begin to gain the queues that are new in the share."""
        ...

    async def release_all(self) -> None:
        """Give up every queue."""
        ...

    def abandon(self) -> None:
        """Own nothing any more, and wait for nothing."""
        ...


class Consumer(Protocol):
    """A consumer that is a member of a group (MQConsumerInner.java)."""

    group: str

    @property
    def ownership(self) -> QueueOwner | None:
        """The share in the group's queues; None where queues are given, not shared."""
        ...

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
