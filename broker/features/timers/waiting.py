"""A record that waits, read from the log, and what becomes of its properties when it is due."""

from typing import Final

import msgspec
from isal.isal_zlib import crc32

from aerobee.remoting.message.layout import (
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_V1,
    RECORD_FIELDS,
    RECORD_SHAPES,
)
from aerobee.remoting.message.properties import (
    PROPERTIES_BYTES_MAX,
    Property,
    join_properties,
    parse_properties,
)
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY
from aerobee.storage.features.timers.codecs import PRECISION_MS
from aerobee.storage.features.timers.marks import timer_mark

ADDED_BYTES_MAX: Final = 192
"""What a delivery adds to the properties at most: two times, a count of rolls, and the mark."""

_SHAPES: Final = {bits: shape.run() for bits, shape in RECORD_SHAPES.items()}
_SYS_FLAG: Final = RECORD_FIELDS.pick("sys_flag")
_PREFIX: Final = bytes([len(TIMER_TOPIC)]) + TIMER_TOPIC.encode()
_NEW: Final = (
    f"{Property.TIMER_ENQUEUE_MS}\x01".encode(),
    f"{DELIVERED_PROPERTY}\x01".encode(),
)
"""Only a message that was rolled, or copied with all that it had, has these already."""
HEAD_BYTES: Final = max(BODY_BYTES_AT.values()) + BODY_LENGTH_BYTES


class WaitingRecord(msgspec.Struct, frozen=True, gc=False):
    """What is stored once more of a record of the timers' queue; hosts as they are packed."""

    queue_offset: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    body: bytes
    properties: bytes


def read_waiting(view: memoryview, position: int) -> WaitingRecord:
    """Take a record of the timers' queue apart; ValueError where there is none that is sound."""
    if len(view) < HEAD_BYTES:  # which none is: its size may have a flipped bit
        raise ValueError("the log has no message of the timers there")
    bits = _SYS_FLAG.unpack_from(view)[0] & HOST_BITS
    (
        total, magic, crc, queue_id, flag, queue_offset, own, sys_flag, born_ms, born_host,
        stored_ms, store_host, reconsume_times, _, body_bytes,
    ) = _SHAPES[bits].unpack_from(view)  # fmt: skip
    at = _SHAPES[bits].size
    end = at + body_bytes
    tail = bytes(view[end : end + len(_PREFIX) + 2]) if body_bytes >= 0 else b""
    if (own, magic, total, queue_id) != (position, MAGIC_V1, len(view), 0) or tail[:-2] != _PREFIX:
        raise ValueError("the log has no message of the timers there")
    if end + len(tail) + int.from_bytes(tail[-2:], "big") != total:
        raise ValueError("its lengths do not add up")
    body = bytes(view[at:end])
    if crc32(body) & 0x7FFF_FFFF != crc:
        raise ValueError("its body is damaged")
    return WaitingRecord(
        queue_offset, flag, sys_flag, born_ms, born_host, stored_ms, store_host, reconsume_times,
        body, bytes(view[end + len(tail) :]),
    )  # fmt: skip


def record_size(head: bytes | memoryview) -> int:
    """Return the size that a record says it has."""
    return int.from_bytes(head[:4], "big")


def delivered_properties(
    record: WaitingRecord, now_ms: int, rolls_until_ms: int | None = None
) -> bytes:
    """Return the properties of a message that is due, or put aside once more until then.

    RocketMQ's brokers add when it came into its slot and when it was taken out, and keep the rest.
    The mark is left out where the properties, of another broker's message, leave no room for it.
    """
    stored = record.properties
    enqueued_ms = record.store_timestamp // PRECISION_MS * PRECISION_MS
    if rolls_until_ms is not None or _NEW[0] in stored or _NEW[1] in stored:
        pairs = parse_properties(stored)
        for name in (
            DELIVERED_PROPERTY, Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS,
        ):  # fmt: skip
            pairs.pop(name, None)
        if rolls_until_ms is not None:
            pairs[Property.TIMER_DELIVER_MS] = str(rolls_until_ms)  # a delay would count anew
            times = pairs.get(Property.TIMER_ROLL_TIMES, "0")
            pairs[Property.TIMER_ROLL_TIMES] = str(int(times[:9]) + 1 if times.isdecimal() else 1)
        stored = join_properties(pairs).encode("utf-8", "replace")
    elif stored and stored[-1] != 2:
        stored += b"\x02"
    timed = b"%b%d\x02TIMER_DEQUEUE_MS\x01%d\x02" % (_NEW[0], enqueued_ms, now_ms)
    for more in (timed + timer_mark(record.queue_offset), timed):
        if len(stored) + len(more) <= PROPERTIES_BYTES_MAX:
            return stored + more
    return stored
