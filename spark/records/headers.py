"""The header fields and the variable parts of thousands of records at once.

Each column is one pass over the block, for IPv6 and for V2 records (two-byte topic length) too;
`loops.py` says whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import POSITION_AT
from aerobee.spark.records import loops
from aerobee.spark.records.damage import FAILFAST, Damage
from aerobee.spark.records.layout import FIELD_BYTES, HEADER_BYTES_MAX, Bytes, Ints, unaligned


class Records:
    """The headers of a chunk of records and the places of their variable parts.

    `data` is a block of the log with `SLACK_BYTES` behind its last record, `starts` and `sizes`
    say where the chunk's records stand in it, in any order. `kinds` are those of their headers
    (`layout.py`). Raises CorruptRecord where the lengths in a record contradict its size.
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
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.sizes = np.ascontiguousarray(sizes, np.int64)
        self._place(*loops.chosen.locate(self))

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        """One header field of every record, in the machine's byte order."""
        long = FIELD_BYTES[name][0] == 8
        kind: Any = np.int64 if long else np.int32
        found = np.empty(len(self.starts), kind)
        loops.chosen.gather(self, name, found)
        return found.astype(dtype, copy=False)

    def only(self, rows: Ints | slice) -> Records:
        """The given ones among the records, in that order."""
        taken = copy(self)
        taken.__dict__.pop("headers", None)
        taken.starts = np.ascontiguousarray(self.starts[rows])
        taken.sizes = np.ascontiguousarray(self.sizes[rows])
        places = self._places[:, rows] if isinstance(rows, slice) else self._places.take(rows, 1)
        taken._place(np.ascontiguousarray(self.kinds[rows]), np.ascontiguousarray(places))
        return taken

    @cached_property
    def headers(self) -> Bytes:
        """The headers copied out of the block, one a row, for passes that read field by field."""
        cells = unaligned(self.data, f"V{HEADER_BYTES_MAX}")[self.starts]
        return cells.view(np.uint8).reshape(len(self), HEADER_BYTES_MAX)

    def position(self, row: int) -> int:
        """The log position that one record says it has."""
        return int(unaligned(self.data, ">i8")[self.starts[row] + POSITION_AT])

    def _place(self, kinds: Bytes, places: Ints) -> None:
        self.kinds, self._places = kinds, places
        self.body_at, self.body_bytes, self.topic_at, self.topic_bytes = places[:4]
        self.properties_at, self.properties_bytes = places[4:]


def located(data: Bytes, base: int, starts: Ints, sizes: Ints, damage: Damage) -> Iterator[Records]:
    """The records whose lengths agree; those between which damaged ones stand, in parts."""
    try:
        records = Records(data, base, starts, sizes)
    except CorruptRecord as error:
        if len(starts) == 1 or damage.mode == FAILFAST:
            damage.note(int(unaligned(data, ">i8")[starts[0] + POSITION_AT]), str(error))
            return
    else:
        yield records
        return
    half = len(starts) // 2
    yield from located(data, base, starts[:half], sizes[:half], damage)
    yield from located(data, base, starts[half:], sizes[half:], damage)
