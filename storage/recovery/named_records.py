"""What queue entries say of a stretch of the log: where records begin, and what none knows."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aerobee.remoting.message.layout import BLANK_SIZE, RECORD_BYTES_MIN
from aerobee.storage.log.scan import HEAD
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.bulk_check import entries_between
from aerobee.storage.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


class NamedRecords(NamedTuple):
    """Records that queue entries name, in the log's order, without overlaps."""

    begins: "Ints"
    ends: "Ints"

    def begins_at(self, position: int) -> bool:
        """Whether an entry points at that position."""
        index = int(np.searchsorted(self.begins, position))
        return index < len(self.begins) and int(self.begins[index]) == position

    def around(self, position: int) -> tuple[int, int] | None:
        """Return begin and end of the record that has a position behind its first byte, or None."""
        index = int(np.searchsorted(self.begins, position)) - 1
        if index < 0 or position >= self.ends[index]:
            return None
        return int(self.begins[index]), int(self.ends[index])

    def with_true_edges(self, segments: Segments) -> "NamedRecords":
        """Leave out what stands before a stretch that no entry names, and the log contradicts.

        An entry whose size has a flipped bit would hide a part of what another queue has lost.
        """
        keep = np.ones(len(self.begins), bool)
        edges = [*np.flatnonzero(self.ends[:-1] < self.begins[1:]).tolist(), len(keep) - 1]
        for index in reversed(edges):
            while index >= 0 and keep[index]:
                begin, end = int(self.begins[index]), int(self.ends[index])
                if _is_there(segments, begin, end - begin):
                    break
                keep[index] = False
                index -= 1
        return NamedRecords(self.begins[keep], self.ends[keep])

    def gaps(self, begin: int, end: int) -> list[tuple[int, int]]:
        """List the stretches from `begin` to `end` that no entry names."""
        edges = np.concatenate(([begin], self.ends)), np.concatenate((self.begins, [end]))
        open_at = np.flatnonzero(edges[0] < edges[1])
        return [(int(edges[0][i]), int(edges[1][i])) for i in open_at]


def named_records(
    segments: Segments, queues: list[ConsumeQueue], begin: int, end: int
) -> NamedRecords:
    """Collect what the queues say; where entries contradict each other the log's headers decide."""
    entries = entries_between(queues, begin, end)
    usable = (entries.size >= RECORD_BYTES_MIN) & (entries.size != BLANK_SIZE)
    usable &= (entries.position >= begin) & (entries.position + entries.size <= end)
    begins, sizes = entries.position[usable], entries.size[usable]
    ends = begins + sizes
    clash = np.zeros(len(begins), bool)
    if len(begins):
        apart = np.concatenate(([True], begins[1:] >= np.maximum.accumulate(ends)[:-1]))
        cluster = np.cumsum(apart) - 1
        clash = np.bincount(cluster)[cluster] > 1
    keep = np.ones(len(begins), bool)
    for index in np.flatnonzero(clash).tolist():
        keep[index] = _is_there(segments, int(begins[index]), int(sizes[index]))
    begins, ends = begins[keep], ends[keep]
    if len(begins):  # two entries for one record: one of them says all
        first = np.concatenate(([True], begins[1:] >= np.maximum.accumulate(ends)[:-1]))
        begins, ends = begins[first], ends[first]
    return NamedRecords(begins, ends)


def _is_there(segments: Segments, position: int, size: int) -> bool:
    segment = segments.find(position)
    head = segment.read(position, HEAD.size) if segment is not None else b""
    if len(head) < HEAD.size:
        return False
    total, _, _, _, _, _, own, _ = HEAD.unpack(head)
    return bool(total == size and own == position)
