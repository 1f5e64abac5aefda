"""Replies as messages: what makes one of a request, and what a requester reads of it."""

from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.client.errors import InvalidMessage, text, wrong_argument
from aerobee.client.message import Message
from aerobee.client.received import ReceivedMessage
from aerobee.client.requests.errors import ReplierRefused
from aerobee.remoting.message.properties import Property
from aerobee.remoting.words import REPLY, REPLY_SUFFIX

REFUSAL: Final = "AEROBEE_REFUSAL"
"""The property of a reply that says why there is no answer; other clients see its body alone."""

_COPIED: Final = (Property.CORRELATION_ID, Property.REPLY_TO_CLIENT, Property.TTL)


def is_request(message: ReceivedMessage) -> bool:
    """Whether somebody waits for a reply to a message."""
    return Property.REPLY_TO_CLIENT in message.properties


def reply_to(
    request: ReceivedMessage,
    body: bytes,
    *,
    refusal: str | None = None,
    tags: str | None = None,
    keys: str | Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Message:
    """Return the message that answers a request; any producer may send it.

        await producer.send(reply_to(request, b"42"))

    With `refusal`, a text, a requester of this library gets ReplierRefused in place of the body,
    which may not be empty either way. Raises InvalidMessage for a message that is no request
    (MessageUtil.createReplyMessage.java).
    """
    if not isinstance(request, ReceivedMessage):
        raise wrong_argument("request", "a ReceivedMessage", request)
    if properties is not None and not isinstance(properties, Mapping):
        raise wrong_argument("properties", "a dict of texts", properties)
    if refusal is not None:
        text("refusal", refusal)
    cluster = request.properties.get(Property.CLUSTER)
    if cluster is None:
        raise InvalidMessage(
            "create reply message fail, requestMessage error, property[CLUSTER] is null."
        )
    if not is_request(request):
        raise InvalidMessage(
            f"message {request.message_id} is no request: it has no property "
            f"{Property.REPLY_TO_CLIENT}, nobody waits for a reply"
        )
    own = {Property.MSG_TYPE: REPLY}
    own |= {name: request.properties[name] for name in _COPIED if name in request.properties}
    if refusal is not None:
        own[REFUSAL] = refusal or "no reason given"
    return Message(
        cluster + REPLY_SUFFIX, body, tags, keys, properties={**(properties or {}), **own}
    )


def raise_refusal(reply: ReceivedMessage) -> None:
    """Raise ReplierRefused for a reply that says why there is no answer."""
    reason = reply.properties.get(REFUSAL)
    if reason is not None:
        raise ReplierRefused(reason, reply)
