"""Walking the log, one by one and as columns: every record once, in whatever pieces it is read."""

from pathlib import Path

import pytest
from support.disks.logs import small
from support.disks.stores import Stored, StoreWriter, properties

from aerobee.storage.disk.files import Files
from aerobee.storage.log import scan as log_scan
from aerobee.storage.log.scan import LogScan, tags_code
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues import bulk_check
from aerobee.storage.queues.bulk_check import sound_until
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.settings import DELAY_LEVELS_MS

SEGMENT = 16 * 1024


@pytest.fixture
def written(tmp_path: Path) -> StoreWriter:
    """200 records in several files."""
    writer = StoreWriter(tmp_path, SEGMENT)
    for number in range(200):
        writer.append(
            Stored(
                topic="orders" if number % 2 else "x" * 140, queue_id=number % 3,
                body=bytes(number * 7 % 900), properties=properties({"TAGS": f"t{number % 4}"}),
                born_host=("::1", 5) if number % 5 else ("1.2.3.4", 5),
                store_timestamp=1_700_000_000_000 + number,
            )
        )  # fmt: skip
    writer.close(spare_segments=1)
    return writer


def parts(root: Path) -> tuple[Segments, ConsumeQueues]:
    """The loaded files of a store."""
    settings = small(root, segment_bytes=SEGMENT, queue_file_entries=300_000)
    segments = Segments(Files(), settings.log_dir, SEGMENT, write=False)
    segments.load()
    queues = ConsumeQueues(Files(), settings, write=False)
    queues.load({})
    return segments, queues


@pytest.mark.parametrize("chunk", [91, 100, 1000, 5000, 1 << 22])
def test_every_record_is_walked_once(
    written: StoreWriter, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few bytes are read at a time; topic, offset, time and tags are what was written."""
    monkeypatch.setattr(log_scan, "CHUNK_BYTES", chunk)
    segments, _ = parts(written.root)
    scan = LogScan(segments, 0)
    found = {}
    for record in scan:
        assert record.store_timestamp >= 1_700_000_000_000
        code = tags_code(record, record.topic, DELAY_LEVELS_MS)
        found[record.topic, record.queue_id, record.queue_offset] = (
            record.position, record.size, code,
        )  # fmt: skip
    expected = {
        (*queue, offset): entry
        for queue, entries in written.entries.items()
        for offset, entry in enumerate(entries)
    }
    assert found == expected
    assert (scan.end, scan.reason) == (written.position, "zeros")
    segments.close()


@pytest.mark.parametrize("stretch", [500, 4000, 1 << 25])
def test_columns_find_the_same_records(
    written: StoreWriter, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the stretches that are looked at together."""
    monkeypatch.setattr(bulk_check, "RANGE_BYTES", stretch)
    segments, queues = parts(written.root)
    assert sound_until(segments, list(queues), 0) == (written.position, 200)
    middle = written.entries["orders", 0][5][0]
    end, count = sound_until(segments, list(queues), middle)
    assert end == written.position and 0 < count < 200
    assert sound_until(segments, list(queues), middle + 1) == (middle + 1, 0)
    segments.close()
    queues.close()


@pytest.mark.parametrize("at", [0, 4, 8, 12, 20, 28, 96, 97, 99])
def test_columns_stop_where_walking_does(written: StoreWriter, at: int) -> None:
    """One wrong byte in one record: both ways end right before it."""
    victim = written.entries["orders", 1][10][0]
    path = written.root / "commitlog" / f"{victim - victim % SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    data[victim % SEGMENT + at] ^= 0x41
    path.write_bytes(data)
    segments, queues = parts(written.root)
    end, count = sound_until(segments, list(queues), 0)
    scan = LogScan(segments, 0)
    walked = sum(1 for _ in scan)
    if at not in (12, 20):  # a walk has nothing to compare queue and offset with
        assert (scan.end, walked) == (victim, count)
    assert end == victim
    segments.close()
    queues.close()
