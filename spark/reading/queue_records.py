"""The records that queue entries point at, from the log in its own order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from aerobee.spark.at_rest.gathering import Gathering
from aerobee.spark.at_rest.log_files import list_segments
from aerobee.spark.planning.queue_pieces import QUEUES_PER_WINDOW, EntryPiece
from aerobee.spark.reading.queue_reads import QueueSlice, queue_slices
from aerobee.spark.records.damage import STRICT, Damage
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.selection import Selection

ENTRIES_READ = 8192  # of one queue at a time


def entry_records(
    piece: EntryPiece, selection: Selection, damage: Damage = STRICT
) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for.

    Raises DataLost where files are gone, and CorruptRecord, if `damage` does, where an entry
    points at something else.
    """
    with Gathering(piece.segments, damage) as gathering:
        for positions, sizes in _in_order(piece, selection, damage):
            for records in gathering.read(positions, sizes):
                wanted = selection.pick(records)
                if len(wanted):
                    yield wanted


def slice_records(piece: EntryPiece, part: QueueSlice, damage: Damage) -> Iterator[Records]:
    """The records that some entries of one queue point at; likewise."""
    if not piece.segments:  # the plan was to open no file of the log
        piece = replace(piece, segments=tuple(list_segments(piece.log_dir)))
    with Gathering(piece.segments, damage) as gathering:
        yield from gathering.read(part.positions, part.sizes)


def _in_order(
    piece: EntryPiece, selection: Selection, damage: Damage
) -> Iterator[tuple[Ints, Ints]]:
    """The entries' positions and sizes, some at a time, so that the log is read forwards.

    Queues are merged as far as all of them have been read; of very many, one comes after the
    other. What is left of a queue then, if little, is read on at once: queues that end about
    together would else make as many small chunks, each of which costs like one of thousands.
    """
    readers = [queue_slices(piece, each, selection, damage, ENTRIES_READ) for each in piece.ranges]
    if len(readers) > QUEUES_PER_WINDOW:
        yield from ((part.positions, part.sizes) for reader in readers for part in reader)
        return
    waiting: list[QueueSlice | None] = [next(reader, None) for reader in readers]
    ended: set[int] = set()
    while any(waiting):
        # a damaged queue's entries may go back; as far as they have come, they never do
        reached = {
            number: np.maximum.accumulate(part.positions)
            for number, part in enumerate(waiting)
            if part is not None
        }
        lasts = {number: int(farthest[-1]) for number, farthest in reached.items()}
        # what has ended holds nobody up: it is complete already
        limit = min(
            (lasts[each] for each in lasts if each not in ended), default=max(lasts.values())
        )
        taken = []
        for number, farthest in reached.items():
            part = waiting[number]
            assert part is not None
            cut = int(np.searchsorted(farthest, limit, "right"))
            taken.append(part.only(slice(cut)))
            rest = part.only(slice(cut, None))
            if len(rest.offsets) <= ENTRIES_READ // 2 and number not in ended:
                more = next(readers[number], None)
                if more is None:
                    ended.add(number)
                else:
                    rest = rest.followed_by(more)
            waiting[number] = rest if len(rest.offsets) else None
        positions = np.concatenate([part.positions for part in taken])
        order = np.argsort(positions, kind="stable")
        yield positions[order], np.concatenate([part.sizes for part in taken])[order]
