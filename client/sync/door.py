"""What a producer that waits lends to adapters which do more at its cluster than send."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, TypeVar

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.routes import RouteCache
from aerobee.client.message import Message, SendResult
from aerobee.client.sync.producer import Producer

__all__ = ["LoopDoor"]

T = TypeVar("T")


class LoopDoor:
    """Lets an adapter work in the loop's thread of a started producer, by its connections.

        door = LoopDoor(producer)
        sent = door.wait(door.send(Message("orders", b"1")))

    All but `wait` is for coroutines that it runs. Before the start, and after the close, `wait`
    raises InvalidUse.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread, and return or raise what it does."""
        return self._producer._run(work)

    async def send(self, message: Message, *, deliver_at: datetime | None = None) -> SendResult:
        """Send a message as the producer does; raises what its `send` raises."""
        return await self._producer._inner.send(message, deliver_at=deliver_at)

    @property
    def routes(self) -> RouteCache:
        """Which queues topics have, as the producer knows them."""
        return self._producer._inner._started().routes

    @property
    def as_stranger(self) -> Brokers:
        """The brokers, on connections that are no member's of any group."""
        return self._producer._inner._started().as_stranger
