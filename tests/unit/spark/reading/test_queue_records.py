"""Records gathered by their queues' entries: in the log's order, in chunks worth their cost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter

from aerobee.spark.exports.plan import plan_export
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.reading.queue_reads import entry_records
from aerobee.spark.records.selection import EVERYTHING

ENTRIES_READ = 8


def chunks(store: Path) -> list[list[int]]:
    """The log positions in each chunk of the only piece."""
    ((_, piece),) = plan_export(str(store), EVERYTHING, None).pieces(1)
    assert isinstance(piece, EntryPiece)
    return [
        [records.position(row) for row in range(len(records))]
        for records in entry_records(piece, EVERYTHING)
    ]


def write(root: Path, queues: list[int]) -> tuple[Path, list[int]]:
    """A store with a message in each of these queues, one after the other, and their positions."""
    writer = StoreWriter(root, 1 << 20)
    for queue_id in queues:
        writer.append(Stored(queue_id=queue_id, body=b"some"))
    positions = [entry[0] for entries in writer.entries.values() for entry in entries]
    return writer.close(), sorted(positions)


def test_queues_that_end_together_make_no_small_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of ten queues ends a read of entries near the same place of the log."""
    monkeypatch.setattr("aerobee.spark.reading.queue_reads.MERGED_ENTRIES", ENTRIES_READ)
    store, positions = write(tmp_path / "s", [number % 10 for number in range(800)])
    found = chunks(store)
    assert [position for chunk in found for position in chunk] == positions
    assert len(found) <= 800 / (ENTRIES_READ * 10) + 2


@pytest.mark.parametrize("seed", range(6))
def test_uneven_queues_are_merged_in_order(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some queues go on where others have long ended, or have not begun."""
    monkeypatch.setattr("aerobee.spark.reading.queue_reads.MERGED_ENTRIES", ENTRIES_READ)
    chance = random.Random(seed)
    queues = [
        chance.choices(range(low, low + 5), weights=[1, 2, 10, 40, 80])[0]
        for low in (0, 3, 1)
        for _ in range(chance.randrange(40, 200))
    ]
    store, positions = write(tmp_path / "s", queues)
    found = chunks(store)
    assert all(found)
    assert [position for chunk in found for position in chunk] == positions
