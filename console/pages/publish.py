"""Publishing: a message by hand, with all that a message has."""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.client.errors import InvalidMessage, InvalidUse
from aerobee.client.message import Message, MessageQueue, SendResult
from aerobee.client.received import ReceivedMessage
from aerobee.console.messages.looking import look_at
from aerobee.console.messages.places import message_place, message_url
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.properties import Property

TEXT, JSON, BASE64 = "text", "json", "base64"
KINDS: Final = (TEXT, JSON, BASE64)
EMPTY: Final[Mapping[str, str]] = {
    "topic": "", "tag": "", "keys": "", "delay": "", "properties": "", "body": "", "kind": TEXT,
    "sharding": "",
}  # fmt: skip
WAITING: Final = frozenset(
    {
        Property.DELAY,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELAY_SEC,
        Property.TIMER_DELIVER_MS,
    }
)
FORM: Final = "/publish"
SENT_MAX: Final = 50
"""Forms of one session of which it is known that they were sent."""
LIKE_BYTES_MAX: Final = 256 << 10
_DELAY: Final = re.compile(r"(\d{1,9})\s*(s|m|min|h|d)?")
_LEVEL: Final = re.compile(r"level\s*(\d{1,2})", re.IGNORECASE)
_UNIT_S: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


async def show(visit: Visit) -> web.StreamResponse:
    """Show the form, empty or filled in like a message that there is."""
    place = message_place(visit.query("like"))
    if place is None:
        return _form(visit, {**EMPTY, "topic": visit.query("topic")})
    message = await look_at(visit.admin.message, *place)
    if len(message.body) > LIKE_BYTES_MAX:
        raise InvalidUse(f"its body has {len(message.body)} bytes: too much for a form")
    return _form(visit, fields_of(message))


async def send(visit: Visit) -> web.StreamResponse:
    """Send what was filled in; lead to the message, or say what is wrong with it."""
    fields = {**EMPTY, **await visit.form()}
    form, known = _digest(fields), visit.session.sent
    if form in known and fields.get("once"):  # a program that sends forms may send two alike
        return _once_more(visit, fields, known[form])
    while len(known) >= SENT_MAX:
        del known[next(iter(known))]
    known[form] = ""
    try:
        message, delay = message_of(fields)
        sent = await visit.admin.publish.send(message, delay=delay)
    except (InvalidMessage, InvalidUse) as error:
        known.pop(form, None)
        return _form(visit, fields, str(error), 422)
    except AerobeeError as error:
        return _form(visit, fields, f"It may not have been stored: {error}", 502)
    visit.changed(f"message {sent.message_id} was sent to {message.topic}")
    place = known[form] = _place(message, delay, sent)
    if place == FORM:
        return visit.go(FORM, "It waits for its time.", topic=message.topic)
    return visit.go(place)


def _digest(fields: Mapping[str, str]) -> str:
    """Name a form with what is in it: whoever goes back and types something else sends that."""
    return hashlib.sha256(msgspec.json.encode(sorted(fields.items()))).hexdigest()


def _place(message: Message, delay: timedelta | None, sent: SendResult) -> str:
    """Return where a message is shown, the form for one that waits for its time."""
    if message.delay_level or delay is not None or message.properties.keys() & WAITING:
        return FORM
    queue = MessageQueue(message.topic, sent.queue.broker_name, sent.queue.queue_id)
    return message_url(queue, sent.queue_offset)


def _once_more(visit: Visit, fields: Mapping[str, str], place: str) -> web.Response:
    """Answer who sends the same form again, with a double click or by going back."""
    trouble = "This form was sent already: nothing more was sent. Press the button again to do so."
    if not place:
        trouble = "This form is being sent, or may have been: look before you send it again."
    return _form(visit, fields, trouble, 409)


def _form(
    visit: Visit, fields: Mapping[str, Any], trouble: str = "", status: int = 200
) -> web.Response:
    return visit.page(
        "messages/publish.html",
        status,
        fields=fields,
        kinds=KINDS,
        trouble=trouble,
        once=secrets.token_urlsafe(9),
    )


def fields_of(message: ReceivedMessage) -> dict[str, str]:
    """Return what would be filled in for a message like this one."""
    given = dict(message.user_properties)
    given.pop(Property.SHARDING_KEY, None)
    body = bytes(message.body)
    try:
        kind, text = TEXT, body.decode()
    except UnicodeDecodeError:
        kind, text = BASE64, base64.encodebytes(body).decode()
    if "\r" in text:  # forms know one end of a line
        kind, text = BASE64, base64.encodebytes(body).decode()
    return {
        **EMPTY,
        "topic": message.topic,
        "tag": message.tags or "",
        "keys": " ".join(message.keys),
        "sharding": message.properties.get(Property.SHARDING_KEY, ""),
        "properties": "\n".join(f"{name}={value}" for name, value in sorted(given.items())),
        "kind": kind,
        "body": text,
    }


def message_of(fields: Mapping[str, str]) -> tuple[Message, timedelta | None]:
    """Return the message of a form, and its delay; raises InvalidUse, InvalidMessage."""
    level, delay = _delay(fields["delay"].strip())
    properties = _properties(fields["properties"])
    if sharding := fields["sharding"].strip():
        properties[Property.SHARDING_KEY] = sharding
    message = Message(
        fields["topic"].strip(),
        _body(fields["kind"], fields["body"]),
        tags=fields["tag"].strip() or None,
        keys=fields["keys"].split(),
        delay_level=level,
        properties=properties,
    )
    return message, delay


def _body(kind: str, text: str) -> bytes:
    """Return the bytes of a body; browsers send lines of forms with CR LF, which nobody typed."""
    if kind == BASE64:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error as error:
            raise InvalidUse(f"the body is no base64: {error}") from None
    body = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    if kind == JSON:
        try:
            msgspec.json.decode(body)
            return msgspec.json.format(body, indent=-1)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidUse(f"the body is no JSON: {error}") from None
    return body


def _delay(text: str) -> tuple[int, timedelta | None]:
    """Return a delay level and a time to wait, at most one of both."""
    if not text or text == "0":
        return 0, None
    if level := _LEVEL.fullmatch(text):
        return int(level[1]), None
    if found := _DELAY.fullmatch(text):
        return 0, timedelta(seconds=int(found[1]) * _UNIT_S[found[2] or "s"])
    raise InvalidUse(f"{text!r} is no delay: write 30s, 10m, 2h or 1d, or level 3")


def _properties(text: str) -> dict[str, str]:
    """Return the properties of lines `name=value`."""
    properties: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise InvalidUse(f"{line!r} is no property: write name=value, each on a line")
        properties[name.strip()] = value.strip()
    return properties


PAGE: Final = ConsolePage(
    "Publish",
    "/publish",
    (PageRoute("GET", "/publish", show), PageRoute("POST", "/publish", send, costly=True)),
    role=ConsoleRole.OPERATOR,
)
