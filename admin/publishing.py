"""Sends messages by hand: one at a time, each tried once."""

from datetime import timedelta
from typing import Final

from aerobee.admin.calls import AdminCalls
from aerobee.client import Message, MessageQueue, Producer, ProducerSettings, SendResult

PUBLISHER_GROUP: Final = "aerobee-tools"
SEND_TIMEOUT_MS: Final = 10_000


class PublishAdmin:
    """Sends a message as a person does who looks what comes of it.

    await admin.publish.send(Message("orders", b"hello", tags="new"))
    """

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        delay: timedelta | None = None,
    ) -> SendResult:
        """Send one message, to a queue of choice or after a delay; errors are a producer's.

        It is tried once: where nobody answered it may have been stored.
        """
        once = ProducerSettings(retries_max=0, send_timeout_ms=SEND_TIMEOUT_MS)
        async with Producer(
            PUBLISHER_GROUP,
            namesrv=self._admin.asked,
            settings=once,
            client=self._admin.settings,
        ) as producer:
            return await producer.send(message, queue=queue, delay=delay)
