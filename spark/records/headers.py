"""Where each field of a CommitLog record stands, read for thousands of records at once.

A record is a header of fixed fields whose length depends on the two host addresses (IPv4 or
IPv6), then body, topic and properties, each behind its length. Records of one host shape form
a group, and one numpy gather reads a whole group: there is no loop over records, for IPv6 and
for V2 records (two-byte topic length) neither. Layout: MessageDecoder, CommitLog
(calMsgLength) of RocketMQ 5.5.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    BORN_HOST_V6_BIT,
    HOST_BITS,
    MAGIC_V2,
    POSITION_AT,
    RECORD_FIELDS,
    RECORD_SHAPES,
)
from aerobee.spark.records import acceleration

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

COMPRESSED = 1  # a bit of the sys flag
HEADER_BYTES_MAX = RECORD_SHAPES[HOST_BITS].size
HOST_BITS_SHIFT = BORN_HOST_V6_BIT.bit_length() - 1
SYS_FLAG_LAST_AT = RECORD_FIELDS.behind("sys_flag") - 1
SLACK_BYTES = 128  # what a buffer must hold behind its last record, so that gathers may overshoot


# by (sysFlag & 48) >> 4: bit 0 is the born host's IPv6 flag, bit 1 the store host's
HEADERS = tuple(np.dtype(RECORD_SHAPES[bits].columns()) for bits in sorted(RECORD_SHAPES))
# where each field stands in them, one offset by kind of header
FIELD_AT = {
    name: np.array([layout.fields[name][1] for layout in HEADERS if layout.fields], np.int64)
    for name in HEADERS[0].names or ()
}


def unaligned(data: Bytes, dtype: str) -> npt.NDArray[Any]:
    """A view whose element i is the value that starts at byte i."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))


@dataclass(slots=True)
class HostShape:
    """The records of a chunk that share one header layout."""

    rows: Ints | slice  # which records of the chunk
    headers: npt.NDArray[Any]  # one structured element per record


class Records:
    """The headers of a chunk of records and the places of their variable parts.

    `data` is a block of the log with `SLACK_BYTES` behind its last record, `starts` and `sizes`
    say where the chunk's records stand in it, in any order. Raises CorruptRecord where the
    lengths in a record contradict its size.
    """

    body_at: Ints
    body_bytes: Ints
    topic_at: Ints
    topic_bytes: Ints
    properties_at: Ints
    properties_bytes: Ints

    def __init__(self, data: Bytes, base: int, starts: Ints, sizes: Ints) -> None:
        self.data = data
        self.base = base
        self.starts = starts
        self.sizes = sizes
        self._kinds: Bytes | None = None  # of the headers, where compiled code reads the fields
        if not self._locate_compiled():
            self._locate()

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        """One header field of every record, in the machine's byte order."""
        if self._kinds is not None and acceleration.loops is not None:
            long = HEADERS[0][name].itemsize == 8
            found = np.empty(len(self.starts), np.int64 if long else np.int32)
            acceleration.loops.gather(self.data, self.starts, self._kinds, FIELD_AT[name], found)
            return found.astype(dtype, copy=False)
        if len(self.shapes) == 1:
            return self.shapes[0].headers[name].astype(dtype)
        values = np.empty(len(self.starts), dtype)
        for shape in self.shapes:
            values[shape.rows] = shape.headers[name]
        return values

    def take(self, rows: Ints | slice) -> Records:
        """The given ones among the records, in that order."""
        if self._kinds is None:
            return Records(self.data, self.base, self.starts[rows], self.sizes[rows])
        taken = copy(self)
        taken.__dict__.pop("shapes", None)  # those of all records
        taken.starts = np.ascontiguousarray(self.starts[rows])
        taken.sizes = np.ascontiguousarray(self.sizes[rows])
        places = self._places[:, rows] if isinstance(rows, slice) else self._places.take(rows, 1)
        taken._place(np.ascontiguousarray(self._kinds[rows]), np.ascontiguousarray(places))
        return taken

    def position(self, row: int) -> int:
        """The log position that one record says it has."""
        return int(unaligned(self.data, ">i8")[self.starts[row] + POSITION_AT])

    @property
    def all_ipv4(self) -> bool:
        """Whether compiled code may take all hosts for IPv4 addresses."""
        return self._kinds is not None and not self._mixed

    def _locate_compiled(self) -> bool:
        """Find the variable parts in one pass; False where that is not possible, or they are off.

        What is wrong with them then, the numpy code says.
        """
        if acceleration.loops is None:
            return False
        self.starts = np.ascontiguousarray(self.starts, np.int64)
        self.sizes = np.ascontiguousarray(self.sizes, np.int64)
        kinds = np.empty(len(self.starts), np.uint8)
        places = np.empty((6, len(self.starts)), np.int64)
        seen = acceleration.loops.locate(self.data, self.starts, self.sizes, kinds, places)
        if seen < 0:
            return False
        self._mixed = bool(seen)
        self._place(kinds, places)
        return True

    def _place(self, kinds: Bytes, places: Ints) -> None:
        self._kinds, self._places = kinds, places
        self.body_at, self.body_bytes, self.topic_at, self.topic_bytes = places[:4]
        self.properties_at, self.properties_bytes = places[4:]

    @cached_property
    def shapes(self) -> list[HostShape]:
        """The records by header layout."""
        cells = unaligned(self.data, f"V{HEADER_BYTES_MAX}")[self.starts]
        rows = cells.view(np.uint8).reshape(len(self.starts), HEADER_BYTES_MAX)
        kinds = (rows[:, SYS_FLAG_LAST_AT] & HOST_BITS) >> HOST_BITS_SHIFT
        if not kinds.any():
            return [HostShape(slice(None), _as_headers(rows, 0))]
        shapes = []
        for kind in np.unique(kinds).tolist():
            at = np.flatnonzero(kinds == kind)
            shapes.append(HostShape(at, _as_headers(rows[at], kind)))
        return shapes

    def _header_bytes(self) -> Ints | int:
        if len(self.shapes) == 1:
            return self.shapes[0].headers.dtype.itemsize
        lengths = np.empty(len(self.starts), np.int64)
        for shape in self.shapes:
            lengths[shape.rows] = shape.headers.dtype.itemsize
        return lengths

    def _locate(self) -> None:
        """Find the variable parts; check each length before it is used as an index."""
        self.body_at = self.starts + self._header_bytes()
        self.body_bytes = self.field("body_bytes", np.int64)
        ends = self.starts + self.sizes
        length_at = self.body_at + self.body_bytes
        v2 = self.field("magic", np.uint32) == MAGIC_V2
        topic_prefix: Any = v2 + 1 if v2.any() else 1
        self._require((self.body_bytes >= 0) & (length_at + topic_prefix + 2 <= ends), "body")
        topic_bytes = self.data[length_at].astype(np.int64)
        if v2.any():
            topic_bytes[v2] = unaligned(self.data, ">i2")[length_at[v2]]
        self.topic_at = length_at + topic_prefix
        self.topic_bytes = topic_bytes
        length_at = self.topic_at + topic_bytes
        self._require((topic_bytes > 0) & (length_at + 2 <= ends), "topic")
        self.properties_at = length_at + 2
        self.properties_bytes = unaligned(self.data, ">i2")[length_at].astype(np.int64)
        self._require(self.properties_at + self.properties_bytes == ends, "properties")

    def _require(self, good: npt.NDArray[np.bool_], part: str) -> None:
        if good.all():
            return
        at = int(np.flatnonzero(~good)[0])
        raise CorruptRecord(
            f"record at log position {self.position(at)}: the length of its {part}"
            f" does not fit the record's {int(self.sizes[at])} bytes"
        )


def _as_headers(rows: npt.NDArray[np.uint8], kind: int) -> npt.NDArray[Any]:
    layout = HEADERS[kind]
    return np.ndarray((len(rows),), layout, rows, strides=(rows.strides[0],))
