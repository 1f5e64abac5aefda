"""Stores whose broker has stepped over damage: every reader tells what is missing, and goes on."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import opened, send, small
from support.lake.exports import go_on, visible
from support.lake.fake_spark import Checkpoint, reader_of, run
from support.lake.plans import planned_pieces

from aerobee.remoting.errors import AerobeeError, CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.errors import DataLost
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.options.query import parse_options
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.decode import Decoder

pytestmark = pytest.mark.usefixtures("inline")

SEGMENT = 64 << 10
COUNT = 300
GOES_ON = {"failOnDataLoss": "false", "mode": "DROPMALFORMED"}
Work = Callable[[Path], None]


def log_file(root: Path, number: int) -> Path:
    return root / "commitlog" / f"{number * SEGMENT:020d}"


def hole(root: Path) -> None:
    """Two pages of the third file never reached the disk."""
    with log_file(root, 2).open("r+b") as file:
        file.seek(4096 * 3)
        file.write(bytes(8192))


def file_gone(root: Path) -> None:
    """The third file is lost."""
    log_file(root, 2).unlink()


def queue_gone(root: Path) -> None:
    """So is a queue."""
    shutil.rmtree(root / "consumequeue" / "t")


DAMAGE: dict[str, tuple[Work, ...]] = {
    "hole": (hole,),
    "file": (file_gone,),
    "hole and queue": (hole, queue_gone),
    "file and queue": (file_gone, queue_gone),
}


def recovered(root: Path, damage: tuple[Work, ...]) -> tuple[set[int], int]:
    """A store that was damaged, and then opened by its broker; the lost offsets, and the span.

    The first message of the log belongs to another topic, as blank entries lead to position 0.
    """
    settings = small(root, segment_bytes=SEGMENT, queue_file_entries=100)
    store = opened(settings)
    send(store, "other", body=b"alone")
    for number in range(COUNT):
        send(store, "t", body=b"%04d" % number + bytes(996))
        store.poll()
    store.close()
    for work in damage:
        work(root)
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    (root / "abort").write_text("4711")
    store = opened(settings)
    (span,) = store.damage
    ((_, _, first, last),) = span.queues
    store.close()
    return set(range(first, last + 1)), span.begin


def read(root: Path, names: str, **options: str) -> list[tuple[str, int]]:
    """Topic and offset of the rows of a batch."""
    columns = names.split()
    parsed = parse_options({"path": str(root), **options})
    found = []
    for store_piece in planned_pieces(parsed, columns, parsed.selection):
        for batch in piece_batches(
            store_piece.piece,
            parsed.selection,
            Decoder(arrow_schema(columns), broker=store_piece.broker),
            DamagePolicy(parsed.mode, fail_on_data_loss=parsed.fail_on_data_loss),
        ):
            found += [(row["topic"], row["queue_offset"]) for row in batch.to_pylist()]
    return sorted(found)


@pytest.mark.parametrize("name", DAMAGE)
def test_batches_tell_and_go_on(tmp_path: Path, name: str) -> None:
    """Along the log, led by the queues, and of the queues alone where these know."""
    lost, _ = recovered(tmp_path / "s", DAMAGE[name])
    whole = sorted([("other", 0), *(("t", at) for at in range(COUNT) if at not in lost)])
    queues = '{"t": ["0"], "other": ["0"]}'
    for options in ({}, {"assign": queues}):
        with pytest.raises((CorruptRecord, DataLost)):
            read(tmp_path / "s", "topic queue_offset body", **options)
        assert read(tmp_path / "s", "topic queue_offset body", **options, **GOES_ON) == whole
    if "queue" in name:  # the queues know
        with pytest.raises(DataLost, match=rf"t s:0 \[{min(lost)}, {max(lost) + 1}\)"):
            read(tmp_path / "s", "topic queue_offset")
        assert read(tmp_path / "s", "topic queue_offset", **GOES_ON) == whole


@pytest.mark.parametrize("name", DAMAGE)
def test_streams_tell_and_go_on(tmp_path: Path, name: str) -> None:
    """And a query that was told not to fail comes to the end, with limits too."""
    lost, _ = recovered(tmp_path / "s", DAMAGE[name])
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "64k"}
    with pytest.raises((CorruptRecord, DataLost)):
        run(reader_of(tmp_path / "s", **options), Checkpoint())
    checkpoint = Checkpoint()
    run(reader_of(tmp_path / "s", **options, **GOES_ON), checkpoint)
    found = sorted((row["topic"], row["queue_offset"]) for row in checkpoint.rows())
    assert found == sorted([("other", 0), *(("t", at) for at in range(COUNT) if at not in lost)])
    assert len(checkpoint.sink) < 20, "blank entries have no length"
    run(reader_of(tmp_path / "s", **options), checkpoint)


@pytest.mark.parametrize("name", DAMAGE)
def test_exports_tell_and_go_on(tmp_path: Path, name: str) -> None:
    """The gap is what was lost and no more, once; what comes later is exported as ever."""
    store, lake = tmp_path / "s", tmp_path / "lake"
    lost, _ = recovered(store, DAMAGE[name])
    with pytest.raises((CorruptRecord, DataLost)):
        go_on(store, lake)
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert [(str(gap.missing)) for gap in summary.gaps] == [f"t s:0 [{min(lost)}, {max(lost) + 1})"]
    assert summary.messages == COUNT + 1 - len(lost)
    assert visible(lake) == sorted(
        [("s", "other", 0, 0), *(("s", "t", 0, at) for at in range(COUNT) if at not in lost)]
    )
    assert go_on(store, lake).added is False


def test_times_are_offsets_in_spite_of_blank_entries(tmp_path: Path) -> None:
    """A position is looked for among entries that ascend, whichever of them are blank."""
    store = tmp_path / "s"
    lost, begin = recovered(store, DAMAGE["file and queue"])
    for base in (0, SEGMENT):
        (store / "commitlog" / f"{base:020d}").unlink()  # retention, up to the lost file
    (planned,) = (
        each for each in plan_to(store, tmp_path / "lake").ranges if each.key.topic == "t"
    )
    assert (planned.start, planned.end, begin) == (max(lost) + 1, COUNT, 2 * SEGMENT)


def test_positions_are_found_among_blank_entries(tmp_path: Path) -> None:
    """As a look at each finds them: blank ones at the beginning, in runs, over whole files."""
    for seed in range(60):
        dice = random.Random(seed)
        per_file, count = dice.choice((3, 7, 50)), dice.randrange(1, 60)
        places = [(at + 1) * 100 for at in range(count)]
        blank = {at for at in range(count) if dice.random() < 0.1}
        for _ in range(dice.randrange(3)):
            first = dice.choice((0, dice.randrange(count)))
            blank |= set(range(first, min(count, first + dice.randrange(20))))
        folder = tmp_path / str(seed)
        folder.mkdir()
        for first in range(0, count, per_file):
            data = b"".join(
                struct.pack(">qiq", *((0, BLANK_SIZE, 0) if at in blank else (places[at], 91, 0)))
                for at in range(first, min(first + per_file, count))
            )
            (folder / f"{first * 20:020d}").write_bytes(data.ljust(per_file * 20, b"\0"))
        whole = [at for at in range(count) if at not in blank]
        for target in dice.sample(range(1, count * 100 + 200), 20):
            with ConsumeQueueFiles(str(folder)) as entries:
                found = entries.first_from(target)
            better = [at for at in whole if at >= found and places[at] < target]
            missed = [at for at in whole if at < found and places[at] >= target]
            assert not better and not missed, (seed, target, found)


def test_errors_are_ours(tmp_path: Path) -> None:
    """Nothing of this ends in an error that nobody foresaw."""
    recovered(tmp_path / "s", DAMAGE["file and queue"])
    for names in ("topic queue_offset", "topic queue_offset body tags_code"):
        for options in ({}, {"subscribe": "t"}, {"startingOffsets": '{"t": {"0": 130}}'}):
            try:
                read(tmp_path / "s", names, **options)
            except AerobeeError:
                continue
