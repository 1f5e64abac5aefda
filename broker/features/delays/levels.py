"""Delay levels as properties: how a message waits for its level's time, and how it comes back.

A message with DELAY=n waits in queue n-1 of SCHEDULE_TOPIC_XXXX with its topic and queue in
REAL_TOPIC and REAL_QID (HookUtils.transformDelayLevelMessage). When it is due it is stored once
more, with the same properties, in its own topic (ScheduleMessageService.messageTimeUp; the record
that consumers get keeps DELAY, REAL_TOPIC and REAL_QID, as RocketMQ 5.5.0's does).
"""

from aerobee.broker.rules.delay_property import TIMER_PROPERTIES
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY, delivered_property


def postpone(properties: dict[str, str], topic: str, queue_id: int, level: int, levels: int) -> int:
    """Change a message's properties into those of one that waits; return the level it gets.

    A level beyond the last of `levels` counts as the last. Timer properties give way to the level,
    as in HookUtils.checkIfTimerMessage.
    """
    if level > levels:
        level = levels
        properties[Property.DELAY] = str(level)
    for name in TIMER_PROPERTIES:
        properties.pop(name, None)
    properties.pop(DELIVERED_PROPERTY, None)
    properties[Property.REAL_TOPIC] = topic
    properties[Property.REAL_QID] = str(queue_id)
    return level


def arrived_properties(stored: bytes, level: int, offset: int, bytes_max: int) -> bytes:
    """Return the properties of a message that is due: what waited, and which message that was.

    The mark is left out where the properties, of another broker's message, leave no room for it.
    """
    if DELIVERED_PROPERTY.encode() in stored:  # of an earlier wait: RocketMQ copies what is there
        pairs = parse_properties(stored)
        pairs.pop(DELIVERED_PROPERTY, None)
        stored = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    if stored and stored[-1] != 2:
        stored += b"\x02"
    marked = stored + delivered_property(level, offset)
    return marked if len(marked) <= bytes_max else stored


def due_ms(tags_code: int, now_ms: int, delay_ms: int) -> int:
    """Return when an entry is due: what its tags code says, unless the clock was set back.

    Nothing waits longer than its level: what would is due now (correctDeliverTimestamp).
    """
    return tags_code if tags_code <= now_ms + delay_ms else now_ms
