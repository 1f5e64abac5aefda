"""A producer that asks by a message, waits for the reply, and replies to others."""

from collections.abc import Iterable, Mapping, Sequence

from aerobee.client.hooks import SendHook
from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.received import ReceivedMessage
from aerobee.client.requests.request_producer import TIMEOUT_MS
from aerobee.client.requests.request_producer import RequestProducer as AsyncProducer
from aerobee.client.sending.producer import DEFAULT_GROUP
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.settings import ClientSettings, ProducerSettings
from aerobee.client.sync.producer import Producer


class RequestProducer(Producer):
    """A producer whose `request` waits for an answer, and whose `reply` gives one.

        with RequestProducer("askers", namesrv="127.0.0.1:9876") as producer:
            answer = producer.request(Message("prices", b"apples"), timeout_ms=2_000)
            print(answer.body)

    Requests and replies are messages, so that RocketMQ's clients may be on the other side. As many
    threads as there are may ask at a time.
    """

    def __init__(
        self,
        group: str = DEFAULT_GROUP,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; arguments and errors are those of `Producer`."""
        self._asking = AsyncProducer(
            group, namesrv=namesrv, settings=settings, client=client, hooks=hooks
        )
        self._wrap(self._asking, hooks)

    def request(
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
        reply; repliers see it as TTL. The queue is chosen as by `send`. Raises the errors of
        `send`, where nothing is known to have been stored; NoReply, where the message was stored
        and no reply came in time; its ReplyConnectionLost, where a connection on which the reply
        might have come had ended meanwhile; ReplierRefused, where the replier said so; Unavailable,
        where the producer is closed. Ctrl-C ends the wait alone: the message may be handled.
        """
        return self._run(
            self._asking.request(
                message, queue=queue, key=key, selector=selector, timeout_ms=timeout_ms
            )
        )

    def reply(
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

            def handle(request: ReceivedMessage) -> None:
                producer.reply(request, b"42")

        With `refusal`, a text, the requester's call raises ReplierRefused. Raises ReplyNotTaken
        where the broker could not hand it over, most often because the requester is gone: handling
        the request again will not help it then. Other errors are those of `reply_to` and `send`.
        """
        return self._run(
            self._asking.reply(
                request, body, refusal=refusal, tags=tags, keys=keys, properties=properties,
                timeout_ms=timeout_ms,
            )
        )  # fmt: skip
