"""How a message asks to be delivered later: its properties, as its sender has set them."""

import re
from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property

TIMER_PROPERTIES: Final = (
    Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
)
LEVEL_MAX: Final = 2**31 - 1  # of a Java int

_INT: Final = re.compile(r"[+-]?[0-9]{1,10}")


def delay_level(properties: dict[str, str]) -> int:
    """Return the level that a message asks for, 0 for none; negative ones count as none.

    Raises RequestError (MESSAGE_ILLEGAL) where DELAY is no 32-bit number: RocketMQ answers code 1
    with a NumberFormatException.
    """
    text = properties.get(Property.DELAY)
    if text is None:
        return 0
    if _INT.fullmatch(text) is None or not -LEVEL_MAX <= int(text) <= LEVEL_MAX:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the property DELAY is {text[:20]!r}, it must be a delay level: a number from 1 on",
        )
    return max(0, int(text))
