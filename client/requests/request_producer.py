"""A producer that asks by a message, waits for the reply, and replies to others."""

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final

from msgspec.structs import replace

from aerobee.client.errors import BrokerRefused, InvalidMessage, SendFailed, whole_number
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.message import Message, MessageQueue, SendResult, check_message
from aerobee.client.received import ReceivedMessage
from aerobee.client.requests.errors import NoReply, ReplyConnectionLost, ReplyNotTaken
from aerobee.client.requests.paths import ReplyPaths
from aerobee.client.requests.replying import raise_refusal, reply_to
from aerobee.client.sending.arguments import check_timeout
from aerobee.client.sending.producer import Producer
from aerobee.client.sending.selectors import QueueSelector
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError, NotConnected
from aerobee.remoting.message.properties import Property

TIMEOUT_MS: Final = 3_000
_OWN: Final = (Property.CORRELATION_ID, Property.REPLY_TO_CLIENT, Property.TTL)

_NOT_PUSHED: Final = "push reply message"  # begins what brokers say of it


class RequestProducer(Producer):
    """A producer whose `request` waits for an answer, and whose `reply` gives one.

        async with RequestProducer("askers", namesrv="127.0.0.1:9876") as producer:
            answer = await producer.request(Message("prices", b"apples"), timeout_ms=2_000)
            print(answer.body)

    Requests and replies are messages, so that RocketMQ's clients may be on the other side
    (DefaultMQProducer.request). Each request is one awaitable: as many as there is room for may
    wait at a time. `timeout_ms` is 3,000 for everything unless it says otherwise. What goes wrong
    is told apart: the errors of `send`, NoReply, ReplyConnectionLost, ReplierRefused,
    ReplyNotTaken.
    """

    _paths: ReplyPaths | None = None

    async def _leave(self, instance: ClientInstance) -> None:
        paths, self._paths = self._paths, None
        try:
            if paths is not None:
                await paths.close()
        finally:
            await super()._leave(instance)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> ReceivedMessage:
        """Send a message and return the reply to it, whichever broker it comes by.

        `timeout_ms` is for everything: route, connections, the send with its attempts, and the
        reply; repliers see it as TTL. The queue is chosen as by `send`. What goes wrong is told
        apart: the errors of `send`, where nothing is known to have been stored; NoReply, where the
        message was stored and no reply came in time; its ReplyConnectionLost, where a connection on
        which the reply might have come had ended meanwhile; ReplierRefused, where the replier said
        so; Unavailable, where the producer is closed. A reply that comes later is dropped.
        Cancelling ends the wait alone: the message may be handled all the same.
        """
        began_s = monotonic()
        timeout_ms = whole_number("timeout_ms", timeout_ms)
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        instance = self._started()
        for name in _OWN:
            if name in message.properties:
                raise InvalidMessage(f"property {name!r}: the client says it in requests")
        correlation_id = str(uuid.uuid4())
        own = dict(zip(_OWN, (correlation_id, instance.client_id, str(timeout_ms)), strict=True))
        asking = replace(message, properties={**message.properties, **own})
        deadline_s = began_s + timeout_ms / 1000
        paths = self._paths
        if paths is None:
            paths = self._paths = ReplyPaths(instance)
        losses, result = paths.losses, None
        with instance.replies.awaited(correlation_id) as waiting:
            paths.asked.add(waiting)
            try:
                await self._make_ready(paths, message.topic, deadline_s)
                try:
                    result = await self.send(
                        asking, queue=queue, key=key, selector=selector,
                        timeout_ms=max(round((deadline_s - monotonic()) * 1000), 1),
                    )  # fmt: skip
                except AerobeeError:
                    if not waiting.done():
                        raise  # else it was stored, and is answered
                if not waiting.done():
                    await asyncio.wait((waiting,), timeout=max(deadline_s - monotonic(), 0))
                if not waiting.done():
                    assert result is not None
                    kind = NoReply if paths.losses == losses else ReplyConnectionLost
                    raise kind(message.topic, timeout_ms, result)
                reply = waiting.result()
            finally:
                paths.asked.discard(waiting)
        raise_refusal(reply)
        return reply

    async def reply(
        self,
        request: ReceivedMessage,
        body: bytes,
        *,
        refusal: str | None = None,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Answer a request that a consumer's handler has got; return when the requester has it.

            async def handle(request: ReceivedMessage) -> None:
                await producer.reply(request, b"42")

        With `refusal`, a text, the requester's call raises ReplierRefused. Raises ReplyNotTaken
        where the broker could not hand it over, most often because the requester is gone: handling
        the request again will not help it then. Other errors are those of `reply_to` and `send`.
        """
        check_timeout(timeout_ms)
        answer = reply_to(
            request, body, refusal=refusal, tags=tags, keys=keys, properties=properties
        )
        try:
            return await self.send(answer, timeout_ms=timeout_ms)
        except (SendFailed, BrokerRefused) as error:
            cause = error.__cause__ if isinstance(error, SendFailed) else error
            if (
                isinstance(cause, BrokerRefused)
                and cause.code == ResponseCode.SYSTEM_ERROR
                and cause.remark.startswith(_NOT_PUSHED)
            ):
                raise ReplyNotTaken(cause.remark) from error
            raise

    async def _make_ready(self, paths: ReplyPaths, topic: str, deadline_s: float) -> None:
        """Be known to every broker that a reply may come by, as far as time allows."""
        route = self._known_route(topic) or await self._route(topic, deadline_s)
        try:
            async with asyncio.timeout(max(deadline_s - monotonic(), 0)):
                await paths.make(route)
        except TimeoutError:
            raise NotConnected(
                f"the brokers of topic {topic!r} were not reached before the request's time was up"
            ) from None
