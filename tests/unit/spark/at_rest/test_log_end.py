"""The end of a log: whole records only, whatever a writer or a crash left behind them."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter, properties

from aerobee.spark.at_rest import log_end
from aerobee.spark.at_rest.log_end import find_end
from aerobee.spark.at_rest.log_files import StorePath, list_segments

LAST = Stored(body=b"last" * 20, properties=properties({"TAGS": "a", "KEYS": "k"}))


def end_of(root: Path) -> int:
    """The end that a reader finds."""
    store = StorePath.find(str(root))
    return find_end(list_segments(store.log_dir), store.queues_dir)


def write(root: Path, count: int, **close: int | bool) -> StoreWriter:
    """A store of `count` messages and one `LAST`."""
    writer = StoreWriter(root, 1 << 14)
    for number in range(count):
        writer.append(Stored(body=b"x" * number, queue_id=number % 3))
    writer.append(LAST)
    writer.close(**close)  # type: ignore[arg-type]
    return writer


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("spare", [0, 2])
@pytest.mark.parametrize("count", [0, 5, 200])
def test_end_is_behind_the_last_record(
    tmp_path: Path, queues: bool, spare: int, count: int
) -> None:
    """With and without queues, with prepared files after the last one."""
    writer = write(tmp_path, count, queues=queues, spare_segments=spare)
    assert end_of(tmp_path) == writer.position


def test_empty_stores_end_where_they_start(tmp_path: Path) -> None:
    """No file, or only a prepared one."""
    (tmp_path / "commitlog").mkdir()
    assert end_of(tmp_path) == 0
    (tmp_path / "commitlog" / f"{1 << 14:020d}").write_bytes(bytes(1 << 14))
    assert end_of(tmp_path) == 1 << 14


@pytest.mark.parametrize("queues", [True, False])
def test_record_torn_at_any_byte_is_not_seen(tmp_path: Path, queues: bool) -> None:
    """A write in the making: the record's first bytes are there, zeros follow."""
    writer = write(tmp_path, 5, queues=queues)
    size = len(writer.entries["orders", 0]) and writer.entries["orders", 0][-1][1]
    start = writer.position - size
    path = tmp_path / "commitlog" / f"{0:020d}"
    whole = path.read_bytes()
    for cut in range(size):
        path.write_bytes(whole[: start + cut] + bytes(len(whole) - start - cut))
        assert end_of(tmp_path) == start, f"torn after {cut} of {size} bytes"


@pytest.mark.parametrize("queues", [True, False])
def test_hole_in_the_last_records_ends_the_log_before_it(tmp_path: Path, queues: bool) -> None:
    """Pages that did not reach the disk are zeros in the middle of what did."""
    writer = write(tmp_path, 40, queues=queues)
    path = tmp_path / "commitlog" / f"{0:020d}"
    whole = path.read_bytes()
    all_entries = sorted(entry for part in writer.entries.values() for entry in part)
    for position, size, _ in all_entries[10:30:5]:
        for at in range(position, position + size, 23):
            if not any(whole[at : at + 64]):
                continue
            path.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
            end = end_of(tmp_path)
            if any(whole[at : position + size]):
                assert end <= position, f"hole at byte {at - position} of {size}"
            else:  # the record ends in zeros of its own: the hole hit only those behind it
                assert end == position + size
    path.write_bytes(whole)
    assert end_of(tmp_path) == writer.position


def test_only_the_tail_is_checked_for_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage far before the end is for the reading tasks to report, not an earlier end."""
    monkeypatch.setattr(log_end, "TAIL_BYTES", 1000)
    writer = write(tmp_path, 60)
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    at = data.index(b"x" * 30)
    data[at] ^= 1
    assert zlib.crc32(data) and writer.position - at > 1000
    path.write_bytes(data)
    assert end_of(tmp_path) == writer.position


def test_zeros_of_a_producers_own_do_not_end_the_log(tmp_path: Path) -> None:
    """Only at the very end zeros cannot be told from a write in the making."""
    writer = StoreWriter(tmp_path, 1 << 14)
    odd = Stored(body=bytes(100), properties=b"KEYS\x01k\x00\x00\x00\x00\x00\x00\x00\x00")
    for message in (odd, Stored(), odd, LAST):
        writer.append(message)
    writer.close()
    assert end_of(tmp_path) == writer.position


def test_queues_that_run_ahead_or_point_nowhere_do_not_matter(tmp_path: Path) -> None:
    """A broker may write queue entries before the records themselves."""
    writer = write(tmp_path, 5)
    writer.entries["orders", 0].append((writer.position, 200, 0))
    writer.entries["orders", 1].append((writer.position + 50, 200, 0))
    writer.entries["orders", 2].append((17, 200, 0))
    for data in writer.segments.values():
        del data[:0]
    writer.close()
    assert end_of(tmp_path) == writer.position
