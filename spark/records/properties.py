r"""A record's properties, `name \x01 value \x02` repeated, taken apart for a whole chunk at once.

The rules are those of MessageDecoder.string2messageProperties: pieces end at \x02 or with the
string, a piece's name ends at its first \x01, a piece without a name or a value does not count,
and of two pieces with one name the later one wins.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.spark.records.cells import payload, ragged, text, with_nulls
from aerobee.spark.records.headers import Bytes, Ints, unaligned

NAME_END, PIECE_END = 1, 2
LAGS_MAX = 64  # records with more properties than this are looked through one by one


class Properties:
    """The (name, value) pieces of every record of a chunk, as places in one byte block."""

    def __init__(self, cells: pa.BinaryArray) -> None:
        self.records = len(cells)
        self._data, offsets = payload(cells)
        starts, ends = _pieces(self._data, offsets)
        name_ends, good = _name_ends(self._data[: offsets[-1]], starts, ends)
        if not good.all():
            starts, ends, name_ends = starts[good], ends[good], name_ends[good]
        self._names: Ints = starts
        self._name_bytes: Ints = name_ends - starts
        self._values: Ints = name_ends + 1
        self._value_bytes: Ints = ends - name_ends - 1
        # piece numbers where each record's pieces start; an empty record owns none
        self._first: Ints = np.searchsorted(starts, offsets).astype(np.int64)
        self._owner: Ints | None = None  # the record of each piece
        self._four: Ints = starts[:0]  # the pieces whose name has 4 bytes, and these bytes
        self._words: npt.NDArray[np.uint32] | None = None

    def find(self, name: bytes) -> pa.StringArray:
        """The value of one property per record, null where a record does not have it.

        `name` is 4 bytes long, as TAGS and KEYS are.
        """
        assert len(name) == 4, "names are compared as one 32-bit word"
        if self._words is None:
            self._four = np.flatnonzero(self._name_bytes == len(name))
            self._words = unaligned(self._data, "<u4")[self._names[self._four]]
        found = self._four[self._words == np.frombuffer(name, "<u4")[0]]
        owners = self._owners()[found]
        starts = np.zeros(self.records, np.int64)
        lengths = np.full(self.records, -1, np.int64)
        starts[owners] = self._values[found]  # the last assignment stays: the later piece wins
        lengths[owners] = self._value_bytes[found]
        missing = lengths < 0
        lengths[missing] = 0
        cells = text(ragged(self._data, starts, lengths))
        return with_nulls(cells, missing) if missing.any() else cells

    def as_map(self, kind: pa.MapType) -> pa.MapArray:
        """All properties as one map<string, string> per record."""
        name_cells = ragged(self._data, self._names, self._name_bytes)
        names = text(name_cells)
        values = text(ragged(self._data, self._values, self._value_bytes))
        # names that are no UTF-8 were replaced, and two of them may look alike afterwards
        replaced = names.buffers()[2] and names.buffers()[2].address != _address(name_cells)
        if replaced or self._repeats():
            return self._deduplicated(names.to_pylist(), values.to_pylist(), kind)
        offsets = pa.array(self._first.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, names, values, type=kind)

    def _owners(self) -> Ints:
        if self._owner is None:
            self._owner = np.repeat(np.arange(self.records), np.diff(self._first))
        return self._owner

    def _repeats(self) -> bool:
        """Whether any record may hold one name twice (equal length, first and last bytes)."""
        owners = self._owners()
        most = int(np.diff(self._first).max(initial=0))
        if most > LAGS_MAX:
            return True
        words = unaligned(self._data, "<u8")
        ends = np.maximum(self._names + self._name_bytes - 8, 0)
        marks = words[self._names] * np.uint64(31) + words[ends]
        marks += self._name_bytes.astype(np.uint64)
        short = self._name_bytes < 8
        if short.any():  # mask what stands behind a short name, its value for instance
            kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - self._name_bytes[short]) * 8).astype("u8")
            marks[short] = words[self._names[short]] & kept
        for lag in range(1, most):
            same = marks[lag:] == marks[:-lag]
            if same.any() and (owners[lag:] == owners[:-lag])[same].any():
                return True
        return False

    def _deduplicated(self, names: list[str], values: list[str], kind: pa.MapType) -> pa.MapArray:
        first = self._first.tolist()
        rows = [
            list(dict(zip(names[low:high], values[low:high], strict=True)).items())
            for low, high in pairwise(first)
        ]
        return pa.array(rows, kind)


def _address(cells: pa.BinaryArray) -> int:
    address: int = cells.buffers()[2].address
    return address


def _pieces(data: Bytes, offsets: Ints) -> tuple[Ints, Ints]:
    """Where each piece starts and ends; the end of a record ends its last piece too."""
    separators = np.flatnonzero(data[: offsets[-1]] == PIECE_END)
    lengths = np.diff(offsets)
    last = data[np.maximum(offsets[1:] - 1, 0)]
    open_ended = offsets[1:][(lengths > 0) & (last != PIECE_END)]
    if not len(open_ended):
        ends, taken = separators, 1
        starts = np.empty_like(ends)
        starts[:1], starts[1:] = 0, ends[:-1] + taken
        return starts, ends
    # an end without a separator sorts before a separator at the same place, the next record's
    keys = np.sort(np.concatenate([open_ended * 2, separators * 2 + 1]), kind="stable")
    ends = keys >> 1
    starts = np.empty_like(ends)
    starts[:1], starts[1:] = 0, ends[:-1] + (keys[:-1] & 1)
    return starts, ends


def _name_ends(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, npt.NDArray[Any]]:
    """The first NAME_END of each piece, and which pieces have a name and a value around it."""
    marks = np.flatnonzero(data == NAME_END)
    if len(marks) == len(starts):
        good = (starts < marks) & (marks < ends - 1)
        if good.all():
            return marks, good
    marks = np.append(marks, np.iinfo(np.int64).max)
    first = marks[np.searchsorted(marks, starts)]
    return first, (first > starts) & (first < ends - 1)
