"""Topics are told apart to the byte, whatever their lengths, with and without compiled code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.spark_rows import rows

from aerobee.spark.at_rest.log_files import list_segments
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.reading.known_topics import ALL_COUNT, KnownTopics

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 40, 126, 127, 128, 200)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_names_that_differ_in_one_letter(tmp_path: Path, deleted: int) -> None:
    """The first, a middle, or the last one: each of a kind is deleted in turn."""
    kinds: list[set[str]] = [set(), set(), set()]
    for length in LENGTHS:
        for kind, at in enumerate((0, length // 2, length - 1)):
            kinds[kind].add("a" * at + "xyz"[kind] + "a" * (length - at - 1))
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for topic in sorted(kinds[0] | kinds[1] | kinds[2]):
        writer.append(Stored(topic=topic, body=topic.encode()))
    writer.append(Stored(topic="last", body=b"last"))
    store = writer.close()
    for topic in kinds[deleted]:
        shutil.rmtree(store / "consumequeue" / topic)
    kept = sorted({"last"}.union(*kinds) - kinds[deleted])
    assert sorted(row["topic"] for row in rows(store)) == kept
    assert sorted(row["body"].decode() for row in rows(store, columns="body")) == kept


def test_store_that_is_taken_away_leaves_nothing_out(tmp_path: Path) -> None:
    """Without the queues' folder nobody knows what was deleted."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    writer.append(Stored())
    store = writer.close()
    (segment,) = list_segments(str(store / "commitlog"))
    queues_dir = str(store / "consumequeue")
    assert KnownTopics.of_piece(Piece(segment, 0, 99, 99, queues_dir)) is not ALL_COUNT
    assert KnownTopics.of_piece(Piece(segment, 0, 99, 99, str(store / "nothing"))) is ALL_COUNT
    assert KnownTopics.of_piece(Piece(segment, 0, 99, 99)) is ALL_COUNT
    assert KnownTopics.of_piece(Piece(segment, 0, 99, 0, queues_dir)) is ALL_COUNT
