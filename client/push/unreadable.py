"""What becomes of messages that cannot be read: their queue goes on, and they are not lost."""

import asyncio
import logging

from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.push.send_back import SendBack
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)


class Unreadable:
    """Puts what cannot be unpacked to the group's dead letters, and lets its queue pass it.

    No handler sees it: that would get packed bytes for a body. The queue's offset waits until the
    broker has it; a queue that is given up waits for a question that is under way. What is damaged
    is only passed over, for the broker would copy the damage; so is everything without `send_back`,
    where a group has no dead letters. (MessageDecoder.java drops it with the rest of its reply.)
    """

    def __init__(self, send_back: SendBack | None, retry_ms: int) -> None:
        self._send_back = send_back
        self._retry_s = retry_ms / 1000
        self._tasks = Tasks()

    async def close(self) -> None:
        """Stop at once; what has not been put away comes again."""
        await self._tasks.close()

    def take(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """See to messages of `process`, which learns when each is done."""
        self._tasks.start(self._see_to(process, messages), "messages that cannot be read")

    async def _see_to(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            if process.dropped:
                return
            while not await self._put_away(process, message):
                await asyncio.sleep(self._retry_s)
                if process.dropped:
                    return

    async def _put_away(self, process: ProcessQueue, message: ReceivedMessage) -> bool:
        """Be done with a message; False if it has to be tried again."""
        process.begun()
        try:
            as_sent = message.damage is not None and message.damage.as_sent
            done = not as_sent or self._send_back is None or await self._send_back.put_away(message)
            if done:
                process.done(message)
        finally:
            process.finished()
        return done
