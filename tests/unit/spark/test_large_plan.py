"""Planning does not grow with the messages, and slowly with files and queues."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.disks.stores import Stored, pack_record
from support.lake.plans import planned_pieces

from aerobee.spark.options.query import parse_options

FILES, QUEUES, FILE_BYTES, QUEUE_FILE_BYTES = 500, 5000, 1 << 30, 6_000_000
# the twentieth part of 10,000 files and 100,000 queues, for which there are 10 seconds
CPU_SECONDS_MAX = 2.0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A log of 500 GiB, all of it holes but for a record at the start of each file."""
    root = tmp_path_factory.mktemp("large") / "s"
    (root / "commitlog").mkdir(parents=True)
    for number in range(FILES):
        base = number * FILE_BYTES
        record = pack_record(Stored(store_timestamp=1_700_000_000_000 + number * 60_000), 0, base)
        last = struct.pack(">qiq", base, len(record), 0)
        with (root / "commitlog" / f"{base:020d}").open("wb") as file:
            file.write(record)
            file.truncate(FILE_BYTES)
    for number in range(QUEUES):
        folder = root / "consumequeue" / f"topic-{number % 100}" / str(number // 100)
        folder.mkdir(parents=True)
        count = 1 + number % 300
        with (folder / f"{0:020d}").open("wb") as file:
            for entry in range(count):
                at = entry * (FILES - 1) // count * FILE_BYTES
                file.write(struct.pack(">qiq", at + number, 102, 0))
            file.truncate(QUEUE_FILE_BYTES)
    (root / "consumequeue" / "orders" / "0").mkdir(parents=True)
    (root / "consumequeue" / "orders" / "0" / f"{0:020d}").write_bytes(last)
    yield root
    shutil.rmtree(root)  # pytest would keep it for some runs


@pytest.mark.parametrize(
    ("names", "options", "pieces"),
    [
        (["body"], {}, FILES),
        (["topic"], {}, 1),
        (["topic"], {"minPartitions": "40"}, 40),
        (["body"], {"subscribe": "topic-7"}, 1),
        (["topic"], {"startingOffsets": '{"topic-1": {"0": 1}}'}, 1),
    ],
)
def test_plan_of_many_files_and_queues_is_quick(
    root: Path, names: list[str], options: dict[str, str], pieces: int
) -> None:
    """Along the log, by all queues, by those of one topic, by offsets."""
    parsed = parse_options({"path": str(root), **options})
    began = time.process_time()
    planned = planned_pieces(parsed, names, parsed.selection)
    assert time.process_time() - began < CPU_SECONDS_MAX
    assert len(planned) == pieces


def test_log_that_ends_with_unknown_messages_is_planned_quickly(root: Path) -> None:
    """Where no record at its end is in a queue, all queues tell how far they were filled."""
    (root / "consumequeue" / "orders").rename(root / "gone")
    parsed = parse_options({"path": str(root), "subscribe": "topic-7"})
    began = time.process_time()
    pieces = planned_pieces(parsed, ["body"], parsed.selection)
    assert time.process_time() - began < CPU_SECONDS_MAX
    assert len(pieces) == 1 + 3  # by entries, and files behind the farthest entry
