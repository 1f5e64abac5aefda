"""Where the records of many pull replies start: a reply is a run of records as the log has them.

Unlike in the log, neighbours in a reply are no neighbours in the log, and nothing hints at their
places. Replies are many and short, so all are walked at the same time: step n finds the nth
record of each. Few long replies are searched for what begins a record, and the chain of
sizes decides whether what was found is that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import MAGIC_AT, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned

RUNS_MIN: Final = 64  # a step over all replies costs as much as the search of some 20 KB
_MAGIC_BYTE: Final = MAGIC_V1 >> 24
assert MAGIC_V2 >> 24 == _MAGIC_BYTE


class ReplyBuffer:
    """Bodies of replies in a row, with the slack that gathers need; used again each time."""

    def __init__(self) -> None:
        self._data: Bytes = np.zeros(0, np.uint8)

    def join(self, bodies: Sequence[bytes | memoryview]) -> tuple[Bytes, Ints]:
        """The bodies one behind the other, and where each starts, with the end as one more.

        What was joined before is gone.
        """
        bounds = np.zeros(len(bodies) + 1, np.int64)
        np.cumsum([len(body) for body in bodies], out=bounds[1:])
        length = int(bounds[-1])
        if length + SLACK_BYTES > len(self._data):
            self._data = np.zeros(length + SLACK_BYTES, np.uint8)
        view = memoryview(self._data)  # type: ignore[arg-type]
        for at, body in zip(bounds.tolist(), bodies, strict=False):
            view[at : at + len(body)] = body
        return self._data, bounds


def find_records(data: Bytes, bounds: Ints) -> tuple[Ints, Ints]:
    """The starts and sizes of the records in the replies `data[bounds[n]:bounds[n + 1]]`.

    Raises CorruptRecord where a reply is no run of whole records.
    """
    starts, ends = bounds[:-1], bounds[1:]
    filled = ends > starts
    if not filled.all():
        starts, ends = starts[filled], ends[filled]
    if len(starts) < RUNS_MIN:
        found = _search(data, starts, ends)
        if found is not None:
            return found
    return _walk(data, starts, ends)


def _walk(data: Bytes, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """All replies side by side, a record of each in every step."""
    sizes_at, magics_at = unaligned(data, ">i4"), unaligned(data, ">u4")
    found: list[tuple[Ints, Ints]] = []
    while len(at):
        sizes = sizes_at[at].astype(np.int64)
        magics = magics_at[at + MAGIC_AT]
        good = (magics == MAGIC_V1) | (magics == MAGIC_V2)
        good &= (sizes >= RECORD_BYTES_MIN) & (at + sizes <= ends)
        if not good.all():
            row = int(np.argmin(good))
            raise CorruptRecord(
                f"a broker's reply to a pull is no run of records: {int(ends[row] - at[row])} bytes"
                f" before its end stand {sizes[row]} as a record's size and {magics[row]:#x} as its"
                " magic number"
            )
        found.append((at, sizes))
        at = at + sizes
        open_ends = at < ends
        if not open_ends.all():
            at, ends = at[open_ends], ends[open_ends]
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.concatenate([step[0] for step in found])
    order = np.argsort(starts)
    return starts[order], np.concatenate([step[1] for step in found])[order]


def _search(data: Bytes, firsts: Ints, ends: Ints) -> tuple[Ints, Ints] | None:
    """Every place that looks like a record's head, if these places are one chain; else None."""
    if not len(firsts):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    end = int(ends[-1])
    starts = np.flatnonzero(data[MAGIC_AT:end] == _MAGIC_BYTE)
    magics = unaligned(data, ">u4")[starts + MAGIC_AT]
    starts = starts[(magics == MAGIC_V1) | (magics == MAGIC_V2)]
    sizes = unaligned(data, ">i4")[starts].astype(np.int64)
    if not len(starts) or starts[0] != firsts[0] or (sizes < RECORD_BYTES_MIN).any():
        return None
    after = starts + sizes
    chained = after[-1] == end and bool((after[:-1] == starts[1:]).all())
    return (starts, sizes) if chained and np.isin(firsts, starts).all() else None
