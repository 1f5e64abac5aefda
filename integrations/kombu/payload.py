"""A message of kombu as RocketMQ keeps it: when it is due, when it is over, how it comes back."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kombu.utils.json import dumps, loads

from aerobee.client.message import Message
from aerobee.client.received import ReceivedMessage
from aerobee.integrations.kombu.options import TransportOptions
from aerobee.remoting.clocks import wall_clock_ms

MS_DIGITS_MAX: Final = 18  # as a 64-bit number has
EXPIRES_AT: Final = "kombu_expires_ms"
"""Property: nobody wants it after this time, in milliseconds since 1970."""
DUE_AT: Final = "kombu_due"
"""Property: what is due beyond a timer's reach is on its way there; ISO 8601."""

WAITING_MAX: Final = 10_000
"""Messages of a queue without a topic that wait for its consumer; more push out the oldest."""

Payload = dict[str, Any]
"""A message as kombu's virtual transports have it: body, headers, properties, content type."""
Heard = tuple[ReceivedMessage, Payload]
"""What was published to an exchange, and waits for a queue without a topic."""


class TimedMessage:
    """A message on its way to a topic, and when it is to be delivered; None: at once."""

    __slots__ = ("deliver_at", "message")

    def __init__(self, message: Message, deliver_at: datetime | None) -> None:
        self.message = message
        self.deliver_at = deliver_at


def packed(topic: str, payload: Payload, options: TransportOptions) -> TimedMessage:
    """Make what is sent of a message that was published.

    Its `eta` is told to the broker's timer. One beyond `timer_max_delay` is told in pieces: who
    gets it too early sends it on.
    """
    properties: dict[str, str] = {}
    if ttl_ms := payload["properties"].get("expiration"):
        properties[EXPIRES_AT] = str(wall_clock_ms() + int(ttl_ms))
    due = _eta(payload) if options.timers else None
    return _timed(topic, payload, properties, due, options)


def sent_on(
    topic: str, payload: Payload, received: ReceivedMessage, options: TransportOptions
) -> TimedMessage:
    """Make what is sent of a message that came before it is due."""
    due = datetime.fromisoformat(received.properties[DUE_AT])
    return _timed(topic, payload, _kept(received), due, options)


def again(topic: str, payload: Payload, received: ReceivedMessage) -> TimedMessage:
    """Make what is sent of a message that is given back: it is delivered again at once."""
    payload["properties"].setdefault("delivery_info", {})["redelivered"] = True
    return TimedMessage(_message(topic, payload, _kept(received)), None)


def unpacked(received: ReceivedMessage) -> Payload:
    """Read a message; raises ValueError for what is none of kombu's."""
    try:
        payload = loads(received.body)
        fits = _is_sound(payload)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message of kombu: {error!r}") from error
    if not fits:
        raise ValueError("no message of kombu")
    return payload  # type: ignore[no-any-return]


def _is_sound(payload: Payload) -> bool:
    """Whether kombu can make a message of it; what it cannot would end a worker, time and again."""
    properties, body = payload["properties"], payload["body"]
    if not isinstance(properties, dict) or not isinstance(payload.get("headers") or {}, dict):
        return False
    about = properties["delivery_info"] = properties.get("delivery_info") or {}
    if not isinstance(about, dict) or not isinstance(about.get("routing_key") or "", str):
        return False
    encoding = properties.get("body_encoding") or "utf-8"
    if encoding == "base64":
        b64decode(body)
        return True
    return isinstance(body, str) and isinstance(encoding, str) and encoding.lower() == "utf-8"


def is_over(received: ReceivedMessage) -> bool:
    """Whether nobody wants it any more."""
    at = received.properties.get(EXPIRES_AT)
    sound = at is not None and at.isascii() and at.isdecimal() and len(at) <= MS_DIGITS_MAX
    return sound and int(at or 0) <= wall_clock_ms()


def is_early(received: ReceivedMessage) -> bool:
    """Whether it is on its way to a time that no timer reaches at once; raises ValueError."""
    at = received.properties.get(DUE_AT)
    if at is None:
        return False
    due = datetime.fromisoformat(at)
    if due.tzinfo is None:
        raise ValueError(f"{DUE_AT}={at!r} has no time zone")
    return due > datetime.now(UTC)


def _timed(
    topic: str,
    payload: Payload,
    properties: dict[str, str],
    due: datetime | None,
    options: TransportOptions,
) -> TimedMessage:
    if due is not None:
        furthest = datetime.now(UTC) + timedelta(seconds=options.timer_max_delay)
        if due > furthest:
            return TimedMessage(
                _message(topic, payload, properties | {DUE_AT: due.isoformat()}), furthest
            )
    properties = {name: value for name, value in properties.items() if name != DUE_AT}
    return TimedMessage(_message(topic, payload, properties), due)


def _message(topic: str, payload: Payload, properties: dict[str, str]) -> Message:
    keys = payload["properties"].get("correlation_id") or ""  # of a task: its id
    if any(character.isspace() or not character.isprintable() for character in str(keys)):
        keys = ""
    return Message(topic, dumps(payload).encode(), keys=str(keys), properties=properties)


def _kept(received: ReceivedMessage) -> dict[str, str]:
    names = (EXPIRES_AT, DUE_AT)
    return {name: received.properties[name] for name in names if name in received.properties}


def _eta(payload: Payload) -> datetime | None:
    """Return when a task is due; None where it says nothing, or not in which zone."""
    eta = (payload.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return eta if isinstance(eta, datetime) and eta.tzinfo is not None else None
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return None  # the worker says what is wrong with it
    return due if due.tzinfo is not None else None
