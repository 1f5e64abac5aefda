"""Gives back what a handler has held for too long, so that the queue's offset can move on."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.push.concurrently import GiveBack
from aerobee.client.push.handling import Running
from aerobee.client.received import ReceivedMessage

log = logging.getLogger(__name__)

ROUND_MESSAGES_MAX: Final = 16  # of each queue
DELAY_LEVEL: Final = 3


class Expiry:
    """Looks at the oldest messages of the owned queues (ProcessQueue.cleanExpiredMsg).

    One that has been in its handler's hands for more than the consume time-out goes back to the
    broker and counts as done here. Its handler is not stopped; what it answers in the end changes
    nothing any more, and waits while the message is on its way. Who gives the queue up waits, too.
    """

    def __init__(
        self, running: Sequence[Running], give_back: GiveBack, consume_timeout_ms: int
    ) -> None:
        self._running = running
        self._give_back = give_back
        self._timeout_s = consume_timeout_ms / 1000

    async def sweep(self, queues: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Give back up to ROUND_MESSAGES_MAX messages of each queue."""
        for process in list(queues.values()):
            for _ in range(ROUND_MESSAGES_MAX):
                head = self._expired_head(process)
                if head is None or not await self._expire(process, *head):
                    break

    async def _expire(
        self, process: ProcessQueue, running: Running, message: ReceivedMessage
    ) -> bool:
        """Give a message back; False where no broker takes it."""
        expiring = running.expiring = asyncio.get_running_loop().create_future()
        process.begun()
        try:
            if await self._give_back([message], DELAY_LEVEL):
                return False
            process.done(message)
        finally:
            expiring.set_result(None)
            process.finished()
        log.warning(
            "handler takes too long, message given back queue=%s offset=%d message_id=%s",
            message.queue,
            message.queue_offset,
            message.message_id,
        )
        return True

    def _expired_head(self, process: ProcessQueue) -> tuple[Running, ReceivedMessage] | None:
        oldest = process.committable
        before = asyncio.get_running_loop().time() - self._timeout_s
        for running in self._running:
            if running.settling or running.process is not process or process.dropped:
                continue
            if running.since_s < before:
                for message in running.messages:
                    if message.queue_offset == oldest:
                        return running, message
        return None
