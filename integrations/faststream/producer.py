"""Where FastStream's publishing ends: bodies are written, and the client sends them."""

import logging
from typing import Any, Final

from faststream._internal.constants import ContentTypes
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import IncorrectState

from aerobee.client import Message, ReceivedMessage, RequestProducer, SendResult
from aerobee.client.requests.errors import ReplyNotTaken
from aerobee.integrations.faststream.message import decode_one, parse_one
from aerobee.integrations.faststream.response import AerobeePublishCommand

__all__ = ["AerobeeFastProducer"]

log = logging.getLogger(__name__)

SENT_WITH: Final = frozenset(("key", "queue", "delay", "deliver_at", "timeout_ms"))


class AerobeeFastProducer(ProducerProto[AerobeePublishCommand]):
    """Sends, asks and answers for a broker while that is connected."""

    def __init__(self, parser: Any = None, decoder: Any = None) -> None:
        self._parser = ParserComposition(parser, parse_one)
        self._decoder = ParserComposition(decoder, decode_one)
        self.codec: CodecProto = DefaultCodec()
        self._serializer: Any = None
        self._client: RequestProducer | None = None

    def connect(self, client: RequestProducer, serializer: Any, codec: CodecProto | None) -> None:
        """Send by this client from now on."""
        self._client = client
        self._serializer = serializer
        self.codec = codec or DefaultCodec()

    def disconnect(self) -> None:
        """Send nothing any more."""
        self._client = None

    @property
    def client(self) -> RequestProducer:
        """The client; raises IncorrectState where the broker is not connected."""
        if self._client is None:
            raise IncorrectState("the broker is not connected: start it, or `await connect()`")
        return self._client

    async def publish(self, cmd: AerobeePublishCommand) -> SendResult | None:
        """Send a message, or an answer; None where nobody waits for that any more."""
        if cmd.request is not None:
            return await self._reply(cmd, cmd.request)
        return await self.client.send(await self.write(cmd, cmd.body), **_sent_with(cmd))

    async def publish_batch(self, cmd: AerobeePublishCommand) -> SendResult:
        """Send messages of one topic as one request."""
        messages = [await self.write(cmd, body) for body in cmd.batch_bodies]
        return await self.client.send_many(messages, **_sent_with(cmd))

    async def request(self, cmd: AerobeePublishCommand) -> ReceivedMessage:
        """Send a message and wait for the answer to it."""
        return await self.client.request(
            await self.write(cmd, cmd.body),
            key=cmd.how.get("key"),
            queue=cmd.how.get("queue"),
            timeout_ms=max(round(cmd.timeout_s * 1000), 1),
        )

    async def write(self, cmd: AerobeePublishCommand, body: Any) -> Message:
        """Return the message that carries a body, with its headers as properties.

        Brokers take no empty bodies: None and "" are written as JSON.
        """
        data, content_type = await self.codec.encode(body, self._serializer)
        if not data and not isinstance(body, bytes):
            data, content_type = b'""' if body == "" else b"null", ContentTypes.JSON.value
        known = {
            "content-type": content_type,
            "correlation_id": cmd.correlation_id,
            "reply_to": cmd.reply_to,
        }
        headers = {name: value for name, value in known.items() if value} | (cmd.headers or {})
        return Message(
            cmd.destination,
            data,
            cmd.how.get("tags"),
            cmd.how.get("keys", ()),
            properties={name: str(value) for name, value in headers.items()},
        )

    async def _reply(
        self, cmd: AerobeePublishCommand, request: ReceivedMessage
    ) -> SendResult | None:
        answer = await self.write(cmd, cmd.body)
        try:
            return await self.client.reply(request, answer.body, properties=answer.properties)
        except ReplyNotTaken as error:  # to handle the request again would not help
            log.warning("nobody waits for the answer to %s: %s", request.message_id, error)
            return None


def _sent_with(cmd: AerobeePublishCommand) -> dict[str, Any]:
    """Return what the client takes beside the message."""
    return {name: value for name, value in cmd.how.items() if name in SENT_WITH}
