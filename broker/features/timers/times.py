"""When a message with a time of its own is due, as its properties and its record say.

RocketMQ keeps in TIMER_OUT_MS the second before: what is due at 12:00:00.001 up to 12:00:01.000
waits in the slot of 12:00:00. The millisecond stands in what the sender has set, TIMER_DELIVER_MS,
or TIMER_DELAY_MS and TIMER_DELAY_SEC from when the message was stored. A message that was put aside
once more (rolled) was stored later than it was sent; so a time that does not lie in the slot that
TIMER_OUT_MS names is not believed, and the slot's end is taken: never early, and no later than
RocketMQ.
"""

import re
from collections.abc import Mapping
from typing import Final

from aerobee.broker.rules.delay_property import TIMER_PROPERTIES
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property
from aerobee.storage.features.timers.codecs import PRECISION_MS

LONG_MAX: Final = 2**63 - 1

_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")
_SECOND_MS: Final = 1000


def wanted_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return when a message is to be delivered that is stored now, None for what is no time.

    Seconds count before milliseconds, and a delay before a time (HookUtils.transformTimerMessage).
    """
    for name, unit_ms, from_ms in (
        (Property.TIMER_DELAY_SEC, _SECOND_MS, now_ms),
        (Property.TIMER_DELAY_MS, 1, now_ms),
        (Property.TIMER_DELIVER_MS, 1, 0),
    ):
        text = properties.get(name)
        if text is not None:
            number = _number(text)
            return None if number is None else from_ms + number * unit_ms
    return None


def is_timed(properties: Mapping[str, str]) -> bool:
    """Whether a message asks for a time of its own and has not waited for it yet."""
    return Property.TIMER_OUT_MS not in properties and any(
        name in properties for name in TIMER_PROPERTIES
    )


def checked_ms(properties: Mapping[str, str], now_ms: int, delay_sec_max: int) -> int | None:
    """Return when a message is due that is sent now, None for one that is due already.

    Raises RequestError (MESSAGE_ILLEGAL) in RocketMQ's words for a value that is no time, for one
    too far away, and for a message that takes another one back when that is due already.
    """
    due_ms = wanted_ms(properties, now_ms)
    if due_ms is not None and due_ms <= now_ms and Property.TIMER_DEL_UNIQKEY not in properties:
        return None
    delay_ms_max = delay_sec_max * _SECOND_MS
    if due_ms is None or not now_ms < due_ms <= now_ms + delay_ms_max:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{delay_ms_max}ms; or if set del msg, the delay time should be bigger than the "
            "current time",
        )
    return due_ms


def out_ms(due_ms: int) -> int:
    """Return TIMER_OUT_MS of a message that is due then: the second before, as a time in ms."""
    return (due_ms - 1) // PRECISION_MS * PRECISION_MS


def due_ms(properties: Mapping[str, str], stored_ms: int) -> tuple[int, int]:
    """Return TIMER_OUT_MS of a message that waits, and when it is due to the millisecond.

    Raises ValueError for a record without such a time.
    """
    out = _number(properties.get(Property.TIMER_OUT_MS, ""))
    if out is None or out < 0:
        raise ValueError("it has no time for which it waits")
    for name in TIMER_PROPERTIES:
        if name in properties:
            due = wanted_ms({name: properties[name]}, stored_ms)
            if due is not None and out < due <= out + PRECISION_MS:
                return out, due
    return out, out + PRECISION_MS


def _number(text: str) -> int | None:
    """Return what Java's Long.parseLong makes of a text, None where it raises."""
    if _LONG.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -LONG_MAX - 1 <= number <= LONG_MAX else None
