"""Handles by which messages are taken back that wait for their time."""

from typing import Final, NamedTuple

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.errors import InvalidMessage
from aerobee.client.message import (
    TOPIC_CHARACTERS_MAX,
    MessageQueue,
    SendResult,
    check_name,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.recall import RecallMessageReply, RecallMessageRequest
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.recall_handle import decode_recall_handle
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

HANDLE_CHARACTERS_MAX: Final = 4096


class Recall(NamedTuple):
    """What a handle says: which message waits where, until when."""

    text: str
    queue: MessageQueue  # any one of the topic on its broker
    deliver_ms: int
    message_id: str


def read_handle(sent: SendResult | str) -> Recall:
    """Read the handle of a send's result, or one that was kept as text.

    Raises InvalidMessage for what is none, and for a result that has none: the message had no time
    of its own, or its broker gives no handles.
    """
    text = sent.recall_handle if isinstance(sent, SendResult) else sent
    if not text:
        raise InvalidMessage(
            "there is no recall handle: only what was sent with deliver_at or delay has one, from"
            " brokers since RocketMQ 5.4, unless its time had come already"
        )
    if not isinstance(text, str) or len(text) > HANDLE_CHARACTERS_MAX:
        raise _not_one(text)
    try:
        handle = decode_recall_handle(text)
        deliver_ms = int(handle.time_ms)
    except ValueError:
        raise _not_one(text) from None
    topic = handle.topic
    check_name("topic", topic, TOPIC_CHARACTERS_MAX)
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise InvalidMessage(f"nothing can be recalled from topic {topic!r}")
    queue = MessageQueue(topic, handle.broker_name, 0)
    return Recall(text, queue, deliver_ms, handle.key)


async def recall(
    brokers: Brokers, group: str, handle: Recall, timeout_ms: int
) -> tuple[str, str | None]:
    """Ask the broker where a message waits to forget it; return the message's id, and its region.

    Raises BrokerRefused, RouteMissing, Unavailable.
    """
    header = RecallMessageRequest(
        topic=handle.queue.topic, recall_handle=handle.text, producer_group=group
    )
    code = RequestCode.RECALL_MESSAGE
    reply = await brokers.call_broker(handle.queue, code, header, timeout_ms)
    message_id = decode_header(RecallMessageReply, reply.ext).msg_id
    return message_id, reply.ext.get(Property.MSG_REGION)


def _not_one(text: object) -> InvalidMessage:
    return InvalidMessage(f"{str(text)[:80]!r} is no recall handle: see SendResult.recall_handle")
