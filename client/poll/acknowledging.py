"""Messages that are done when somebody says so, and not when the next one is asked for."""

from typing import Final

from aerobee.client.errors import InvalidUse
from aerobee.client.message import MessageQueue
from aerobee.client.poll.lite_pull_consumer import LitePullConsumer
from aerobee.client.poll.takers import TAKER, Taker
from aerobee.client.received import ReceivedMessage

__all__ = ["Acknowledging", "Taker"]

LEFT: Final = "what is not acknowledged comes again"


class Acknowledging:
    """Hands out a consumer's messages one by one, each to a taker that says when it is done.

        taking = Acknowledging(consumer)
        message = await taking.next(taker)
        ...  # later taker.done() is true
        taking.count()
        await taking.commit()

    For adapters whose users acknowledge: an offset passes a message when that, and all before it in
    its queue, are done. Whatever is not comes again when its queue goes to another member, after a
    crash, and after `leave`. It belongs to the consumer's event loop, and nobody else polls the
    consumer. With auto-commit offsets are stored as well without `commit`, a little later.
    """

    def __init__(self, consumer: LitePullConsumer) -> None:
        self._consumer = consumer
        self._stored: dict[MessageQueue, int] = {}  # what was committed last

    async def next(self, taker: Taker) -> ReceivedMessage | None:
        """Return the next message, in the name of its taker; None when the consumer is closed.

        Raises InvalidUse before the start.
        """
        token = TAKER.set(taker)
        try:
            return await anext(self._consumer)
        except StopAsyncIteration:
            return None
        finally:
            TAKER.reset(token)

    def count(self) -> bool:
        """Let offsets pass what is done; False where the consumer is closed."""
        if self._consumer._instance is None:
            return False
        self._consumer._queues.fetched.asks_again()
        return True

    @property
    def unfinished(self) -> int:
        """How many messages are handed out and were not done at the last `count`."""
        return self._consumer._queues.fetched.handed

    def reached(self, queue: MessageQueue) -> int | None:
        """Return the offset before which all of a queue is done; None where another has it."""
        queues = self._consumer._queues
        process = queues.all().get(queue)
        return None if process is None else queues.fetched.committable(process)

    async def commit(self) -> None:
        """Store the offsets that have changed since the last time; failures are logged."""
        queues = self._consumer._queues
        reached = {at: queues.fetched.committable(one) for at, one in queues.all().items()}
        changed = {at: end for at, end in reached.items() if self._stored.get(at) != end}
        self._stored = reached
        await queues.offsets.commit_all(changed)

    async def leave(self) -> None:
        """Close the consumer: what is done is committed, the rest comes again."""
        await self._consumer.__aexit__(InvalidUse, InvalidUse(LEFT), None)
