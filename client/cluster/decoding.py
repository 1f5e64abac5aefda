"""The messages of what a broker answered, record by record, and what is wrong with one."""

import logging
import struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from aerobee.client.compiled.choice import FIELDS, MessageDamage, decode_run, rises
from aerobee.client.errors import OFFSET_MAX
from aerobee.client.message import MessageQueue
from aerobee.client.received import BODY_BYTES_MAX, UNPACKED_BYTES_MAX, ReceivedMessage
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.batch import split_batch
from aerobee.remoting.message.compression import decompress
from aerobee.remoting.message.layout import (
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    TOPIC_LENGTH_BYTES_MIN,
)
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.record import HEAD, MIDDLES
from aerobee.remoting.words import LIGHT_QUEUE_PREFIX

log = logging.getLogger(__name__)

WRAPPED: Final = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
"""Bits of a record that holds a batch."""
_V6_BITS: Final = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_HEAD_BYTES: Final = HEAD.size
_unpack_head = HEAD.unpack_from
_MIDDLES: Final = {bits: (layout.unpack_from, layout.size) for bits, layout in MIDDLES.items()}
_LENGTHS_BYTES: Final = TOPIC_LENGTH_BYTES_MIN + PROPERTIES_LENGTH_BYTES  # of the shorter head
_UINT16: Final = struct.Struct(">H")
_UNFIT: Final = (struct.error, IndexError, KeyError)


class UnpackLimits(NamedTuple):
    """What compressed bodies may grow to: one of them, and those of one pull before the last."""

    body_bytes_max: int = BODY_BYTES_MAX
    pull_bytes_max: int = UNPACKED_BYTES_MAX


UNPACK_LIMITS: Final = UnpackLimits()


class Decoded(NamedTuple):
    """What the records of a pull reply hold.

    `unreadable` are messages whose body cannot be unpacked, or is not what was stored: each has its
    `damage`. `next_offset` is where to go on if not all was decoded, None if it was.
    """

    messages: list[ReceivedMessage]
    unreadable: list[ReceivedMessage]
    next_offset: int | None


def decode_pulled(
    data: bytes | memoryview,
    queue: MessageQueue,
    bounds: tuple[int, int] | None = None,
    *,
    span: tuple[int, int] | None = None,
    again: bool = False,
    limits: UnpackLimits = UNPACK_LIMITS,
) -> Decoded:
    """Decode the records of one pull reply, in their order; a bad one does not harm the others.

    `bounds` are the queue's min and max offset, as the reply told them; `span` is what it covers,
    from the offset that was asked for to the one to go on from: a record that names another offset
    gets one of these (`_put_in_order`), as nothing protects that number. Once those before have
    brought what `limits` allow for a pull, no more is unpacked. Where the bytes behind a record are
    no record, the rest counts as not decoded: it comes again, from where the broker's index says.
    Raises CorruptRecord if that is all, unless it comes `again`: then the first one has a wrong
    size in the broker's log, and cannot be read.
    (MessageDecoder.java drops a bad message, and silently all that come behind it in the reply.)
    """
    body_bytes_max, pull_bytes_max = limits
    records: list[ReceivedMessage] = []
    unreadable = unpacked = at = 0
    end = len(data)
    whole, wrapped = True, False
    while at < end and (whole := unpacked < pull_bytes_max):
        if decode_run is not None:
            at = decode_run(data, at, records, ReceivedMessage, queue, bounds)
            if at == end:
                break
        if not isinstance(data, bytes):
            data = bytes(data)  # what is kept of it must not keep all of what was read
        found = _next(data, at, end, queue, bounds, body_bytes_max, cut=again and not records)
        if found is None:
            whole = False
            break
        size, message, whole = found
        at += size
        records.append(message)
        wrapped |= message.sys_flag & WRAPPED == WRAPPED
        if message.damage is not None:
            unreadable += 1
            if not whole:
                break
        elif message.sys_flag & SysFlag.COMPRESSED:
            unpacked += message.held_bytes
    if not records and not whole:
        raise _cut_off(at, end)
    if span is not None:
        if wrapped:
            records, unreadable = _unwrapped(records, span[0])
        _put_in_order(records, *span)
    following = None if whole else records[-1].queue_offset + 1
    if not unreadable:
        return Decoded(records, [], following)
    sound = [each for each in records if each.damage is None]
    return Decoded(sound, [each for each in records if each.damage is not None], following)


def _next(
    data: bytes,
    at: int,
    end: int,
    queue: MessageQueue,
    bounds: tuple[int, int] | None,
    body_bytes_max: int,
    *,
    cut: bool,
) -> tuple[int, ReceivedMessage, bool] | None:
    """Return a record's size and its message, and whether one can go on behind it.

    None where the bytes are no record; but with `cut` they are the message, all that are left.
    """
    try:
        return *_decode_one(data, at, end, queue, bounds, body_bytes_max), True
    except _UNFIT:
        unfit = _unfit(data, at, end, queue, bounds)
    if unfit is not None:
        return *unfit, _is_record(data, at + unfit[0], end)
    unfit = _unfit(data, at, end, queue, bounds, cut=True) if cut else None
    return None if unfit is None else (*unfit, False)


def _unwrapped(records: list[ReceivedMessage], first: int) -> tuple[list[ReceivedMessage], int]:
    """Take apart what a broker keeps as one record (`queue.type=BatchCQ`); count what is damaged.

    Message i of a record has the offset of that plus i, properties of its own, and the rest of the
    record (MessageDecoder.decodeMessage). Those before the `first` offset were not asked for.
    Nothing protects a record's offset: with a bit flipped it may leave no room for those behind it.
    """
    messages: list[ReceivedMessage] = []
    for record in records:
        if record.damage is not None or record.sys_flag & WRAPPED != WRAPPED:
            messages.append(record)
            continue
        try:
            inner, wrong = split_batch(record.body), "a batch without a message"
        except RequestError as error:
            inner, wrong = [], error.remark or str(error)
        if not inner:
            record.damage = MessageDamage(wrong, True)
            messages.append(record)
            continue
        base, sys_flag = record.queue_offset, record.sys_flag & ~(WRAPPED | SysFlag.COMPRESSED)
        skipped = first - base if base < first < base + len(inner) else 0
        same = {name: getattr(record, name) for name in FIELDS}
        messages += [
            ReceivedMessage(
                **same
                | {
                    "body": each.body, "queue_offset": min(base + number, OFFSET_MAX),
                    "flag": each.flag, "sys_flag": sys_flag, "body_bytes": len(each.body),
                    "raw_properties": each.properties, "held_bytes": len(each.body),
                    "parsed": None,
                }
            )
            for number, each in enumerate(inner)
            if number >= skipped
        ]  # fmt: skip
    return messages, sum(each.damage is not None for each in messages)


def _take_light_offsets(records: list[ReceivedMessage], name: str) -> None:
    """Give records the offsets that they have in a light queue (LMQ), of which they tell.

    Theirs are those of the queue that they were sent to, any of which may look like one of this.
    """
    for record in records:
        names = record.properties.get(Property.INNER_MULTI_DISPATCH, "").split(",")
        offsets = record.properties.get(Property.INNER_MULTI_QUEUE_OFFSET, "").split(",")
        for light, offset in zip(names, offsets, strict=False):
            if light == name and offset.isascii() and offset.isdecimal() and len(offset) < 19:
                record.queue_offset = int(offset)


def _put_in_order(records: list[ReceivedMessage], first: int, behind: int) -> None:
    """See to it that the offsets of a reply's records rise from `first` and stay below `behind`.

    One flipped bit in a record's own offset would let the group commit one that has nothing to do
    with the queue, and wait for it for ever. Such a message gets the offset behind the one before
    it, which is its own wherever nothing was filtered out. Raises CorruptRecord for more records
    than offsets.
    """
    if records and records[0].queue.topic.startswith(LIGHT_QUEUE_PREFIX):
        _take_light_offsets(records, records[0].queue.topic)
    if rises(records, first, behind):
        return
    left = len(records)
    if left > behind - first:
        raise CorruptRecord(f"pull of offsets {first} to {behind} brought {left} records")
    last = first - 1
    for record in records:
        left -= 1
        said = record.queue_offset
        if not last < said < behind - left:
            record.queue_offset = last + 1
            log.warning(
                "message with a wrong offset queue=%s offset=%d position=%d: its record says %d",
                record.queue, record.queue_offset, record.position, said,
            )  # fmt: skip
        last = record.queue_offset


def decode_messages(
    data: bytes, queue: MessageQueue, bounds: tuple[int, int] | None = None
) -> list[ReceivedMessage]:
    """Decode records that are all sound; raises CorruptRecord that names the first damaged byte."""
    messages: list[ReceivedMessage] = []
    at = 0
    end = len(data)
    while at < end:
        if decode_run is not None:
            at = decode_run(data, at, messages, ReceivedMessage, queue, bounds)
            if at == end:
                break
        try:
            size, message = _decode_one(data, at, end, queue, bounds, BODY_BYTES_MAX)
        except _UNFIT:
            raise _cut_off(at, end) from None
        if message.damage is not None:
            raise CorruptRecord(f"pulled record at byte {at}: {message.damage.reason}")
        messages.append(message)
        at += size
    return messages


def _cut_off(at: int, end: int) -> CorruptRecord:
    return CorruptRecord(
        f"pulled record at byte {at} of {end} is cut off, or its parts do not fit its size"
    )


def _is_record(data: bytes, at: int, end: int) -> bool:
    """Whether another record seems to begin here, or there is nothing more."""
    return at == end or (
        end - at >= _HEAD_BYTES and _unpack_head(data, at)[1] in (MAGIC_V1, MAGIC_V2)
    )


def _unfit(
    data: bytes,
    at: int,
    end: int,
    queue: MessageQueue,
    bounds: tuple[int, int] | None,
    *,
    cut: bool = False,
) -> tuple[int, ReceivedMessage] | None:
    """Return a whole record whose parts do not fit, with its bytes for a body; None if cut off.

    With `cut` it is all that is left, whatever size it names.
    """
    if end - at < _HEAD_BYTES:
        return None
    size, magic, _, _, flag, offset, position, sys_flag, born_ms = _unpack_head(data, at)
    if not _HEAD_BYTES <= size <= end - at:
        if not cut:
            return None
        size = end - at
    body, nobody = data[at : at + size], bytes(8)
    damage = MessageDamage(f"its {size} bytes (magic {magic:#x}) do not fit its parts", False)
    fields = (offset, 0, position, born_ms, 0, flag, sys_flag, size, b"", nobody, nobody)
    return size, ReceivedMessage(queue, body, *fields, bounds, None, size, damage)


def _decode_one(
    data: bytes,
    at: int,
    end: int,
    queue: MessageQueue,
    bounds: tuple[int, int] | None,
    body_bytes_max: int,
) -> tuple[int, ReceivedMessage]:
    """Return a record's size and its message; raises one of _UNFIT where the parts do not fit."""
    size, magic, crc, _, flag, offset, position, sys_flag, born_ms = _unpack_head(data, at)
    unpack_middle, middle_bytes = _MIDDLES[sys_flag & _V6_BITS]
    body_at = at + _HEAD_BYTES + middle_bytes
    born_host, store_ms, store_host, reconsumed, _, stored_bytes = unpack_middle(
        data, at + _HEAD_BYTES
    )
    topic_at = body_at + stored_bytes
    if magic == MAGIC_V1:
        properties_at = topic_at + _LENGTHS_BYTES + data[topic_at]
    elif magic == MAGIC_V2:
        properties_at = topic_at + _LENGTHS_BYTES + 1 + _UINT16.unpack_from(data, topic_at)[0]
    else:
        raise IndexError
    behind = at + size
    length = data[properties_at - 2] << 8 | data[properties_at - 1]
    if stored_bytes < 0 or behind > end or properties_at + length != behind:
        raise IndexError
    body = data[body_at:topic_at]
    damage = None
    if crc and (crc32(body) ^ crc) & 0x7FFF_FFFF:
        damage = MessageDamage(f"position {position} fails its checksum", False)
    elif sys_flag & SysFlag.COMPRESSED:
        try:
            body = decompress(body, sys_flag, bytes_max=body_bytes_max)
        except CorruptRecord as error:
            damage = MessageDamage(str(error), True)
    return size, ReceivedMessage(
        queue, body, offset, reconsumed, position, born_ms, store_ms, flag, sys_flag, stored_bytes,
        data[properties_at:behind], born_host, store_host, bounds, None, len(body), damage,
    )  # fmt: skip
