"""Messages as FastStream's handlers see them, and what became of each."""

from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from faststream.message import StreamMessage, decode_message

from aerobee.client import Later, ReceivedMessage, is_request
from aerobee.remoting.message.properties import Property

__all__ = ["OUTCOME", "AerobeeBatchMessage", "AerobeeMessage", "Outcome", "decode_batch",
           "decode_one", "parse_batch", "parse_one"]  # fmt: skip

M = TypeVar("M")

SOON: Final = Later(delay_level=1)
DEAD: Final = Later(delay_level=-1)


class Outcome:
    """What is said of what a consumer is handling; silence lets it come again."""

    __slots__ = ("answer", "rejected")

    def __init__(self) -> None:
        self.answer: Later | None = Later()
        self.rejected = False


OUTCOME: Final[ContextVar[Outcome | None]] = ContextVar("outcome", default=None)
"""That of the call at work; tasks and threads which a handler starts inherit it."""


class _Acknowledged(StreamMessage[M], Generic[M]):
    """A message whose acknowledgement its consumer hears of; the first word counts."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self._outcome = OUTCOME.get()

    def _say(self, answer: Later | None) -> None:
        if self.committed is None and self._outcome is not None:
            self._outcome.answer = answer
            self._outcome.rejected = answer is DEAD

    async def ack(self) -> None:
        """It is done."""
        self._say(None)
        await super().ack()

    async def nack(self, delay_level: int = 0) -> None:
        """It comes again: after 10 s, 30 s, 1 min ..., or the `delay_level`-th delay (1: 1 s)."""
        self._say(Later(delay_level=delay_level))
        await super().nack()

    async def reject(self) -> None:
        """It does not come again: it goes to the group's dead letters, `%DLQ%group`."""
        self._say(DEAD)
        await super().reject()


class AerobeeMessage(_Acknowledged[ReceivedMessage]):
    """One message; `raw_message` is the client's, with topic, tags, keys and place.

        from aerobee.integrations.faststream.annotations import AerobeeMessage

        @broker.subscriber("orders", group="billing")
        async def bill(order: Order, message: AerobeeMessage) -> None:
            if message.raw_message.reconsume_times > 3:
                await message.reject()

    What is said once its handler has returned changes nothing.
    """


class AerobeeBatchMessage(_Acknowledged[list[ReceivedMessage]]):
    """Up to `batch` messages of one queue, which are acknowledged together."""


async def parse_one(raw: ReceivedMessage) -> AerobeeMessage:
    """Read a message's headers, which are its properties."""
    headers = raw.user_properties
    asker = raw.properties[Property.REPLY_TO_CLIENT] if is_request(raw) else ""
    return AerobeeMessage(
        raw,
        raw.body,
        headers=headers,
        reply_to=asker or headers.get("reply_to", ""),
        content_type=headers.get("content-type"),
        correlation_id=headers.get("correlation_id") or raw.properties.get(Property.CORRELATION_ID),
        message_id=raw.message_id,
    )


async def parse_batch(raw: list[ReceivedMessage]) -> AerobeeBatchMessage:
    """Read the headers of several; those of the first speak for all."""
    headers = [each.user_properties for each in raw]
    return AerobeeBatchMessage(
        raw,
        [each.body for each in raw],
        headers=headers[0],
        batch_headers=headers,
        content_type=headers[0].get("content-type"),
        correlation_id=headers[0].get("correlation_id"),
        message_id=f"{raw[0].message_id}-{raw[-1].message_id}",
    )


async def decode_one(message: StreamMessage[Any]) -> Any:
    """Read a body as its content type says."""
    return decode_message(message)


async def decode_batch(message: StreamMessage[list[ReceivedMessage]]) -> list[Any]:
    """Read the bodies of several, each as its own content type says."""
    return [decode_message(await parse_one(each)) for each in message.raw_message]
