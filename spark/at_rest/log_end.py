"""How far a log can be read: the end of its last whole record, of a running broker's too.

Behind the last record a file is zeros. What stands directly before may be in the making: a
broker that is writing has a torn record there for microseconds, a machine that lost power for
good. Torn pieces are zeros as well, so a record counts once its head, the lengths inside, its
body's CRC, its timestamp, topic and properties are all there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from aerobee.remoting.message.layout import (
    BLANK_FIELDS,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BYTES,
    PROPERTIES_LENGTH_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.spark.at_rest.blocks import Block, Stop, scan_blocks
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_hints import last_starts, next_start
from aerobee.spark.records import loops
from aerobee.spark.records.headers import Records

GROWTH_BYTES = 64 << 10  # where a log is followed, new records are looked for in this much
_BLANK = BLANK_FIELDS.run()
_POSITION = RECORD_FIELDS.pick("position")
TAIL_BYTES = 16 << 20  # how much before the end is checked; a write in progress is far smaller
STEP_BYTES = 256 << 10  # how much is read at a time: the end is near
_ANCHORS_MAX = 64
_HOLE = bytes(512)  # a sector that did not reach the disk; no property value looks like this


def find_end(
    segments: Sequence[LogSegment], queues_dir: str | None, tail_bytes: int | None = None
) -> int:
    """The log position behind the last whole record, or the log's first position if none is.

    `tail_bytes` before it are checked byte by byte, TAIL_BYTES if nothing else is said. Files
    prepared ahead (all zeros) may follow. Raises StoreUnreadable where a file goes away.
    """
    for segment in reversed(segments):
        with OpenSegment(segment) as file:
            if end := _end_within(file, queues_dir, tail_bytes or TAIL_BYTES):
                return end
    return segments[0].base if segments else 0


def grown_end(segments: Sequence[LogSegment], queues_dir: str | None, known: int) -> int:
    """The same, where everything before `known`, a former end, was found whole earlier.

    Reads what is new, at most TAIL_BYTES of it. Raises StoreUnreadable, DataLost.
    """
    end = known
    for number, segment in enumerate(segments):
        if segment.end <= known:
            continue
        start = max(known, segment.base)
        with OpenSegment(segment) as file:
            reached, follows = _grown_within(file, start, known + TAIL_BYTES)
        if follows is Stop.PART and reached > known + TAIL_BYTES:
            return max(reached, find_end(segments[number:], queues_dir))
        end = reached if reached > start else end
        if follows is not Stop.BLANK:
            break
    return end


def _grown_within(file: OpenSegment, start: int, limit: int) -> tuple[int, Stop]:
    """The end of the whole records of a file from `start` on, and what follows there.

    PART is a record, one behind `limit` or one that is not whole.
    """
    end, window = start, GROWTH_BYTES
    while True:
        size, follows = _peek(file, end)
        if follows is not Stop.PART or end > limit:
            return end, follows
        before = end
        for block in scan_blocks(file, end, min(end + max(window, size), file.segment.end)):
            if not len(block.starts):
                break
            last = _peek(file, block.end)[1] is not Stop.PART
            if (torn := _first_torn(block, at_end=last)) is not None:
                return block.base + int(block.starts[torn]), Stop.PART
            end = block.end
        if end == before:
            return end, Stop.PART
        window *= 4


def _peek(file: OpenSegment, position: int) -> tuple[int, Stop]:
    """How long the record is that begins at a log position, and PART; 0 and why there is none."""
    head = bytearray(min(PREFIX_BYTES, max(0, file.segment.end - position)))
    file.read_into(memoryview(head), position)
    size, magic = _BLANK.unpack_from(head) if len(head) >= _BLANK.size else (0, BLANK_MAGIC)
    closed = len(head) < _BLANK.size or size == file.segment.end - position
    if magic == BLANK_MAGIC and closed:
        return 0, Stop.BLANK
    record = magic in (MAGIC_V1, MAGIC_V2) and len(head) == PREFIX_BYTES
    record = record and _POSITION.unpack_from(head)[0] == position
    if record and RECORD_BYTES_MIN <= size <= file.segment.end - position:
        return size, Stop.PART
    return 0, Stop.ZERO


def _end_within(file: OpenSegment, queues_dir: str | None, tail_bytes: int) -> int | None:
    """The end of the last whole record of one file, None where it holds none."""
    segment = file.segment
    end = _scan(file, _anchor(file, queues_dir))
    check_from = segment.base
    if end - segment.base > tail_bytes:
        hint = next_start(queues_dir, end - tail_bytes)
        if hint is not None and hint < end and _scan(file, hint) == end:
            check_from = hint
    for block in scan_blocks(file, check_from, end, block_bytes=STEP_BYTES):
        if (
            block.end > end - tail_bytes
            and (torn := _first_torn(block, at_end=block.end == end)) is not None
        ):
            end = block.base + int(block.starts[torn])
            break
        if block.stop is not Stop.PART:  # a hole that the walk from the anchor did not cross
            end = block.end
            break
    return end if end > segment.base else None


def _anchor(file: OpenSegment, queues_dir: str | None) -> int:
    """A record start late in the file, from the queues, else the file's first byte."""
    for position in last_starts(queues_dir, file.segment.end)[:_ANCHORS_MAX]:
        if position < file.segment.base:
            break
        for block in scan_blocks(file, position, file.segment.end, block_bytes=STEP_BYTES):
            if len(block.starts) and _first_torn(block, records_max=1) is None:
                return position
            break
    return file.segment.base


def _scan(file: OpenSegment, start: int) -> int:
    end = start
    for block in scan_blocks(file, start, file.segment.end, block_bytes=STEP_BYTES):
        end = block.end
    return end


def _first_torn(
    block: Block, records_max: int | None = None, *, at_end: bool = False
) -> int | None:
    """The number of the block's first record that is not complete, None where all are."""
    records, bad = block.whole(0, records_max)
    bad_row = None if bad is None else len(records)
    data = memoryview(block.data)  # type: ignore[arg-type]
    ends = records.starts + records.sizes
    good = records.field("store_timestamp", np.int64) > 0
    if at_end and len(records):
        # with more records behind it, a zero at the end of a record is a producer's own
        good[-1] &= records.properties_bytes[-1] == 0 or data[int(ends[-1]) - 1] != 0
    if _all_whole(records, good):
        return bad_row
    rows = zip(
        good.tolist(),
        records.body_at.tolist(),
        records.body_bytes.tolist(),
        records.field("body_crc", np.int64).tolist(),
        records.topic_at.tolist(),
        records.properties_at.tolist(),
        ends.tolist(),
        strict=True,
    )
    for row, (fine, at, size, crc, topic_at, properties_at, end) in enumerate(rows):
        whole = isal_zlib.crc32(data[at : at + size]) & 0x7FFFFFFF == crc & 0x7FFFFFFF
        topic = bytes(data[topic_at : properties_at - PROPERTIES_LENGTH_BYTES])
        if not (fine and whole) or 0 in topic or _HOLE in bytes(data[properties_at:end]):
            return row
    return bad_row


def _all_whole(records: Records, good: npt.NDArray[np.bool_]) -> bool:
    """Whether all records plainly are complete; where not, it may still be so."""
    if not len(records):
        return True
    if not good.all() or (records.properties_bytes >= len(_HOLE)).any():
        return False
    cells = loops.chosen.ragged(records.data, records.topic_at, records.topic_bytes)
    topics = cells.buffers()[2]
    if not np.frombuffer(topics, np.uint8, int(records.topic_bytes.sum())).all():
        return False
    data = memoryview(records.data)  # type: ignore[arg-type]
    ends = records.body_at + records.body_bytes
    places = zip(records.body_at.tolist(), ends.tolist(), strict=True)
    found = np.array([isal_zlib.crc32(data[at:end]) for at, end in places], np.int64)
    stored = records.field("body_crc", np.int64)
    return not ((found ^ stored) & 0x7FFFFFFF).any()
