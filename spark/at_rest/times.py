"""Where in a log a point in time is: the first record that was stored then, or later."""

from __future__ import annotations

from collections.abc import Sequence

from aerobee.remoting.message.layout import (
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BYTES,
    RECORD_FIELDS,
    RECORD_SHAPES,
)
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.records.layout import HEADER_BYTES_MAX

_STORED = {bits: fields.pick("store_timestamp") for bits, fields in RECORD_SHAPES.items()}
_HEAD = RECORD_FIELDS.pick("magic", "position", "sys_flag")


def position_of(state: StoreState, moment_ms: int) -> int:
    """The log position before which the records are older than `moment_ms`; at most the log's end.

    As one position it parts all queues alike. Where the broker's clock was set back, records
    near it may be on the other side. Raises DataLost where a file goes away meanwhile.
    """
    segments = [segment for segment in state.segments if segment.base < state.end]
    older = _older(segments, moment_ms)
    if older is None:
        return state.start
    with OpenSegment(older) as file:
        low, high = older.base + 1, min(older.end, state.end)
        stop = found = high
        while low < high:
            middle = (low + high) // 2
            start = file.find_record(middle, min(high + PREFIX_BYTES, stop))
            time_ms = store_time(file, start) if start < high else None
            if time_ms is None:
                high = middle
            elif time_ms >= moment_ms:
                found, high = start, middle
            else:
                low = start + 1
    return found


def store_time(file: OpenSegment, position: int) -> int | None:
    """The store timestamp (ms) of the record at a log position, None where none is."""
    head = bytearray(min(HEADER_BYTES_MAX, file.segment.end - position))
    file.read_into(memoryview(head), position)
    if len(head) < RECORD_FIELDS.size:
        return None
    magic, own, sys_flag = _HEAD.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2) or own != position:
        return None
    stamp: int = _STORED[sys_flag & HOST_BITS].unpack_from(head)[0]
    return stamp


def _older(segments: Sequence[LogSegment], moment_ms: int) -> LogSegment | None:
    """The last file that begins before a moment; files without records end the log."""
    low, high = 0, len(segments)
    while low < high:
        middle = (low + high) // 2
        with OpenSegment(segments[middle]) as file:
            first_ms = store_time(file, segments[middle].base)
        if first_ms is not None and first_ms < moment_ms:
            low = middle + 1
        else:
            high = middle
    return segments[low - 1] if low else None
