"""Records that hold a batch (`queue.type=BatchCQ`) become one for each of its messages.

What readers meet then is what a consumer gets: message i of a record has its offset plus i, body,
flag and properties of its own, and all else of the record. Blocks without such a record pass as
they are. A batch that cannot be taken apart stays one record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final

import numpy as np
from isal.isal_zlib import crc32

from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.batch import BatchedMessage, split_batch
from aerobee.remoting.message.layout import PROPERTIES_LENGTH_BYTES, RECORD_FIELDS, WRAPPED
from aerobee.spark.offsets import QueueRange
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import COMPRESSED, SLACK_BYTES, SYS_FLAG_LAST_AT, Mask
from aerobee.spark.records.unpacking import unpacked

log = logging.getLogger(__name__)

BLOCK_BYTES: Final = 8 << 20  # of records taken apart, or one batch
_CRC_BITS: Final = 0x7FFF_FFFF
_OFFSET_MAX: Final = (1 << 63) - 1
_SIZE, _CRC, _QUEUE_ID, _FLAG, _OFFSET, _SYS_FLAG, _BODY_BYTES = (
    (RECORD_FIELDS.run(name, name), RECORD_FIELDS.at(name))
    for name in (
        *("total_size", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag"),
        "body_bytes",
    )
)


def wrapped(records: Records) -> Mask:
    """Which of the records hold a batch."""
    found: Mask = records.data[records.starts + SYS_FLAG_LAST_AT] & WRAPPED == WRAPPED
    return found


def unwrapped(chunks: Iterable[Records], ranges: Sequence[QueueRange] = ()) -> Iterator[Records]:
    """The chunks, and in place of those with batches others with a record for each message.

    Of a batch whose queue is among the `ranges`, which are of different queues, only the messages
    within. Chunks are valid until the next is asked for.
    """
    bounds: dict[tuple[str, int], QueueRange] | None = None
    for records in chunks:
        batches = wrapped(records)
        if not batches.any():
            yield records
            continue
        if bounds is None:
            bounds = {(each.key.topic, each.key.queue_id): each for each in ranges}
        yield from _taken_apart(records, batches, bounds)


def _taken_apart(
    records: Records, batches: Mask, bounds: Mapping[tuple[str, int], QueueRange]
) -> Iterator[Records]:
    pieces: list[bytes] = []
    size = 0
    for row, batch in enumerate(batches.tolist()):
        for piece in _messages(records, row, bounds) if batch else [_record(records, row)]:
            if pieces and size + len(piece) > BLOCK_BYTES:
                yield _joined(pieces, records.base)
                pieces, size = [], 0
            pieces.append(piece)
            size += len(piece)
    if pieces:
        yield _joined(pieces, records.base)


def _joined(pieces: list[bytes], base: int) -> Records:
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    data = np.frombuffer(b"".join([*pieces, bytes(SLACK_BYTES)]), np.uint8)
    return Records(data, base, np.cumsum(sizes) - sizes, sizes)


def _record(records: Records, row: int) -> bytes:
    at = int(records.starts[row])
    return records.data[at : at + int(records.sizes[row])].tobytes()


def _messages(
    records: Records, row: int, bounds: Mapping[tuple[str, int], QueueRange]
) -> Iterator[bytes]:
    """The messages of one record, each as a record of its own; or that one, if it is damaged.

    One at a time: heads make many small ones longer than all of the batch.
    """
    record, start = _record(records, row), int(records.starts[row])
    body_at = int(records.body_at[row]) - start
    topic_end = int(records.topic_at[row] + records.topic_bytes[row]) - start
    body_end = body_at + int(records.body_bytes[row])
    body = record[body_at:body_end]
    stored, sys_flag = _read(record, _CRC), _read(record, _SYS_FLAG)
    first = _read(record, _OFFSET)
    try:
        if stored and (crc32(body) ^ stored) & _CRC_BITS:
            raise ValueError("its body has another checksum")
        inner = split_batch(unpacked(body, sys_flag))
        if first > _OFFSET_MAX - len(inner):
            raise ValueError(f"there are no offsets behind {first}")
    except (AerobeeError, ValueError) as error:
        log.warning("batch at log position %d: %s; it stays one row", records.position(row), error)
        inner = []
    if not inner:
        yield record
        return
    head = bytearray(record[: body_at - _BODY_BYTES[0].size])
    _SYS_FLAG[0].pack_into(head, _SYS_FLAG[1], sys_flag & ~(WRAPPED | COMPRESSED))
    topic = record[body_end:topic_end]
    name = records.data[records.topic_at[row] :][: records.topic_bytes[row]].tobytes()
    within = bounds.get((name.decode(errors="replace"), _read(record, _QUEUE_ID)))
    for offset, message in enumerate(inner, first):
        if within is None or within.start <= offset < within.end:
            yield _alone(head, topic, offset, message)


def _read(record: bytes, field: tuple[Struct, int]) -> int:
    layout, at = field
    number: int = layout.unpack_from(record, at)[0]
    return number


def _alone(head: bytearray, topic: bytes, offset: int, message: BatchedMessage) -> bytes:
    """A message as a record with the head of its batch's."""
    body, properties = message.body, message.properties
    size = len(head) + _BODY_BYTES[0].size + len(body) + len(topic)
    size += PROPERTIES_LENGTH_BYTES + len(properties)
    for (layout, at), value in (
        (_SIZE, size),
        (_CRC, crc32(body) & _CRC_BITS),
        (_FLAG, message.flag),
        (_OFFSET, offset),
    ):
        layout.pack_into(head, at, value)
    length = len(properties).to_bytes(PROPERTIES_LENGTH_BYTES, "big")
    return b"".join((head, _BODY_BYTES[0].pack(len(body)), body, topic, length, properties))
