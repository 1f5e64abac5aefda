"""When a message is to be delivered, in the words of brokers."""

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from aerobee.client.errors import InvalidMessage, InvalidUse
from aerobee.client.finding.moments import delay_ms, moment_ms
from aerobee.client.message import Message
from aerobee.remoting.message.properties import Property

TIMES: Final = (
    Property.DELAY,
    Property.TIMER_DELIVER_MS,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_LEVEL,
    Property.TIMER_DEL_UNIQKEY,
)
"""Properties that let a message wait in the broker, or take another one back there."""


def due(message: Message, deliver_at: datetime | None, delay: timedelta | None) -> Message:
    """Return the message with the time of its delivery; the given one is left as it is.

    A moment travels as it is, a delay as one, so that the broker's clock counts it from when it
    arrives. Raises InvalidUse for two times, a moment without time zone, a negative delay and what
    is neither; InvalidMessage where the message has a time already.
    """
    if deliver_at is not None and delay is not None:
        raise InvalidUse("give one of deliver_at and delay")
    if (waits := waits_by(message)) is not None:
        raise InvalidMessage(f"the message has a time already, by {waits}: leave one of the two")
    if deliver_at is not None:
        name, value = Property.TIMER_DELIVER_MS, moment_ms("deliver_at", deliver_at)
    else:
        name, value = Property.TIMER_DELAY_MS, delay_ms("delay", delay)
    return replace(message, properties={**message.properties, name: str(value)})


def waits_by(message: Message) -> str | None:
    """Return the name of what lets a message wait, None for one that is delivered at once."""
    if message.delay_level:
        return "delay_level"
    return next((name for name in TIMES if name in message.properties), None)
