"""The header fields and the variable parts of thousands of records at once.

Each column is one pass over the block, for IPv6 and for V2 records (two-byte topic length) too;
`loops.py` says whose.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from aerobee.spark.records import loops
from aerobee.spark.records.layout import Bytes, Ints
from aerobee.spark.records.numpy_loops import Contradiction
from aerobee.spark.records.places import RecordPlaces


class Records(RecordPlaces):
    """The headers of a chunk of records and the places of their variable parts.

    Raises Contradiction where the lengths in a record contradict its size.
    """

    def __init__(self, data: Bytes, base: int, starts: Ints, sizes: Ints) -> None:
        super().__init__(data, base, starts, sizes)
        self.place(*loops.chosen.locate(self))

    def field(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        """One header field of every record, in the machine's byte order."""
        return loops.chosen.header_field(self, name).astype(dtype, copy=False)


def whole_records(
    data: Bytes, base: int, starts: Ints, sizes: Ints
) -> tuple[Records, Contradiction | None]:
    """The records up to the first one whose lengths contradict its size, and what that one says."""
    bad = None
    while True:
        try:
            return Records(data, base, starts, sizes), bad
        except Contradiction as error:  # lengths of one kind are looked at before those of another
            bad = error
            starts, sizes = starts[: bad.row], sizes[: bad.row]
