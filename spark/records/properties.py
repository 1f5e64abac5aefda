r"""A record's properties, `name \x01 value \x02` repeated, taken apart for a whole chunk at once.

The rules are those of MessageDecoder.string2messageProperties: pieces end at \x02 or with the
string, a piece's name ends at its first \x01, a piece without a name or a value does not count,
and of two pieces with one name the later one wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.spark.records.cells import gathered, payload, text
from aerobee.spark.records.layout import Bytes, Ints, Words, unaligned

MARKED = (b"TAGS", b"KEYS")  # properties that are columns of their own
NAME_END, PIECE_END = 1, 2
LAGS_MAX = 64  # records with more properties than this are looked through one by one


@dataclass(frozen=True, slots=True)
class Marked:
    """Where in `data` the values of TAGS and KEYS of some records are, each with its length.

    `places` has two rows for each of the two; a length of -1 says that a record has none.
    """

    data: Bytes
    places: Ints

    def of(self, name: bytes) -> tuple[Ints, Ints]:
        """The rows of one of them."""
        at, lengths = self.places[2 * MARKED.index(name) :][:2]
        return at, lengths


@dataclass(frozen=True, slots=True)
class Properties:
    """The names and values of records' properties; `first` is the number of each record's first.

    `distinct` says that no record has two of one name.
    """

    first: Words
    names: pa.BinaryArray
    values: pa.BinaryArray
    marked: Marked
    distinct: bool = True

    def as_map(self, kind: pa.MapType) -> pa.MapArray:
        """All properties as one map<string, string> per record."""
        names, values = text(self.names), text(self.values)
        # names that are no UTF-8 were replaced, and two of them may look alike afterwards
        replaced = names.buffers()[2] and _address(names) != _address(self.names)
        if self.distinct and not replaced:
            return pa.MapArray.from_arrays(pa.array(self.first), names, values, type=kind)
        pairs = list(zip(names.to_pylist(), values.to_pylist(), strict=True))
        rows = [list(dict(pairs[low:high]).items()) for low, high in pairwise(self.first.tolist())]
        return pa.array(rows, kind)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The (name, value) pieces of every record of a chunk, as places in one byte block.

    `first` is the number of each record's first one; a record without properties owns none.
    """

    data: Bytes
    first: Ints
    starts: Ints
    name_bytes: Ints
    value_bytes: Ints

    @classmethod
    def of(cls, cells: pa.BinaryArray) -> _Pieces:
        """Those in each record's bytes, which `cells` has."""
        data, offsets = payload(cells)
        starts, ends = _pieces(data, offsets)
        name_ends, good = _name_ends(data[: offsets[-1]], starts, ends)
        if not good.all():
            starts, ends, name_ends = starts[good], ends[good], name_ends[good]
        first = np.searchsorted(starts, offsets).astype(np.int64)
        return cls(data, first, starts, name_ends - starts, ends - name_ends - 1)

    @property
    def values(self) -> Ints:
        """Where their values start."""
        return self.starts + self.name_bytes + 1

    @property
    def owners(self) -> Ints:
        """The record of each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def marked(self) -> Marked:
        """Those named TAGS and KEYS."""
        places = np.zeros((2 * len(MARKED), len(self.first) - 1), np.int64)
        places[1::2] = -1
        four = np.flatnonzero(self.name_bytes == 4)  # names of that length are one word each
        words = unaligned(self.data, "<u4")[self.starts[four]]
        owners, values = self.owners, self.values
        for number, name in enumerate(MARKED):
            found = four[words == np.frombuffer(name, "<u4")[0]]
            # the last assignment stays: the later piece wins
            places[2 * number, owners[found]] = values[found]
            places[2 * number + 1, owners[found]] = self.value_bytes[found]
        return Marked(self.data, places)

    def repeat(self) -> bool:
        """Whether any record may hold one name twice (equal length, first and last bytes)."""
        most = int(np.diff(self.first).max(initial=0))
        if most > LAGS_MAX:
            return True
        words, names, name_bytes = unaligned(self.data, "<u8"), self.starts, self.name_bytes
        marks = words[names] * np.uint64(31) + words[np.maximum(names + name_bytes - 8, 0)]
        marks += name_bytes.astype(np.uint64)
        short = name_bytes < 8
        if short.any():  # mask what stands behind a short name, its value for instance
            kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - name_bytes[short]) * 8).astype("u8")
            marks[short] = words[names[short]] & kept
        owners = self.owners
        for lag in range(1, most):
            same = marks[lag:] == marks[:-lag]
            if same.any() and (owners[lag:] == owners[:-lag])[same].any():
                return True
        return False


def find_marked(cells: pa.BinaryArray) -> Marked:
    """Where TAGS and KEYS are of the properties in each record's bytes, which `cells` has."""
    return _Pieces.of(cells).marked()


def take_apart(cells: pa.BinaryArray) -> Properties:
    """All properties in each record's bytes."""
    pieces = _Pieces.of(cells)
    return Properties(
        pieces.first.astype(np.int32),
        gathered(pieces.data, pieces.starts, pieces.name_bytes),
        gathered(pieces.data, pieces.values, pieces.value_bytes),
        pieces.marked(),
        not pieces.repeat(),
    )


def _address(cells: pa.Array) -> int:
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
