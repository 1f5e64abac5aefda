"""Records in a block of the log, and where in it the parts of each are."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Self

import numpy as np

from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.spark.records.layout import HEADER_BYTES_MAX, Bytes, Ints, unaligned

_POSITION = RECORD_FIELDS.pick("position")


class RecordPlaces:
    """A chunk of records as the passes over them take it.

    `data` is a block of the log with `SLACK_BYTES` behind its last record, `starts` and `sizes`
    say where the chunk's records stand in it, in any order. `kinds` are those of their headers
    (`layout.py`); these and where the variable parts are `place` notes.
    """

    kinds: Bytes
    body_at: Ints
    body_bytes: Ints
    topic_at: Ints
    topic_bytes: Ints
    properties_at: Ints
    properties_bytes: Ints

    def __init__(self, data: Bytes, base: int, starts: Ints, sizes: Ints) -> None:
        self.data = data
        self.base = base
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.sizes = np.ascontiguousarray(sizes, np.int64)

    def __len__(self) -> int:
        return len(self.starts)

    def place(self, kinds: Bytes, places: Ints) -> None:
        """Note the kinds of the headers, and in six rows where bodies, topics, properties are."""
        self.kinds, self._places = kinds, places
        self.body_at, self.body_bytes, self.topic_at, self.topic_bytes = places[:4]
        self.properties_at, self.properties_bytes = places[4:]

    def only(self, rows: Ints | slice) -> Self:
        """The given ones among the records, in that order."""
        taken = copy(self)
        taken.__dict__.pop("headers", None)
        taken.starts = np.ascontiguousarray(self.starts[rows])
        taken.sizes = np.ascontiguousarray(self.sizes[rows])
        places = self._places[:, rows] if isinstance(rows, slice) else self._places.take(rows, 1)
        taken.place(np.ascontiguousarray(self.kinds[rows]), np.ascontiguousarray(places))
        return taken

    @cached_property
    def headers(self) -> Bytes:
        """The headers copied out of the block, one a row, for passes that read field by field."""
        cells = unaligned(self.data, f"V{HEADER_BYTES_MAX}")[self.starts]
        return cells.view(np.uint8).reshape(len(self), HEADER_BYTES_MAX)

    def position(self, row: int) -> int:
        """The log position that one record says it has."""
        data = memoryview(self.data)  # type: ignore[arg-type]
        position: int = _POSITION.unpack_from(data, int(self.starts[row]))[0]
        return position
