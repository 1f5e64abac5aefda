"""What an instance needs of the consumers that live in it."""

from collections.abc import Iterable
from typing import Protocol

from aerobee.client.rebalance import Ownership
from aerobee.remoting.bodies import ConsumerData


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

    async def persist_offsets(self) -> None:
        """Store what was consumed; called every few seconds."""
        ...
