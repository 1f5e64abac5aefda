"""Units of batch queues: their bytes, where they end, and what is believed of them."""

from pathlib import Path

import pytest

from aerobee.storage.disk.files import Files
from aerobee.storage.recovery.batch_units import unit_files
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles
from aerobee.storage.recovery.batch_units.units import (
    UNIT_BYTES,
    UNIT_FILE_BYTES,
    BatchUnit,
    pack_units,
    units_of,
)

GOLDEN = bytes.fromhex(
    "0000000000000000 0000012c 0000000000000000 0000018bcfe56800 0000000000000007 0003 ffffffff"
    " 00000000"
)
PER_FILE = 4


def units(count: int, begin: int = 0) -> list[BatchUnit]:
    """Records of three messages each, 100 bytes."""
    numbers = range(begin, begin + count)
    return [BatchUnit(100 * n, 100, n, 1_700_000_000_000 + n, 3 * n, 3) for n in numbers]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UnitFiles:
    """Files of four units."""
    monkeypatch.setattr(unit_files, "UNIT_FILE_BYTES", PER_FILE * UNIT_BYTES)
    return UnitFiles(Files(), tmp_path, "t", 0)


def found(files: UnitFiles) -> list[BatchUnit]:
    return [unit for _, unit in files.read()]


def test_bytes_are_those_of_the_format() -> None:
    """FORMAT.md shows them."""
    unit = BatchUnit(0, 300, 0, 1_700_000_000_000, 7, 3)
    assert pack_units([unit]) == GOLDEN
    assert list(units_of(GOLDEN + bytes(UNIT_BYTES))) == [unit]
    assert (UNIT_BYTES, UNIT_FILE_BYTES) == (46, 13_800_000)


def test_units_go_on_over_files(files: UnitFiles) -> None:
    """Each file has its full size; the next one begins where it ends."""
    files.write(0, units(6))
    files.write(6, units(4, 6))
    assert found(files) == units(10)
    assert [(span.begin, span.size) for span in files.spans()] == [
        (n * PER_FILE * UNIT_BYTES, PER_FILE * UNIT_BYTES) for n in range(3)
    ]
    assert [unit for _, unit in files.read(files.newest(1))] == units(2, 8)


def test_units_are_written_over_and_cut(files: UnitFiles) -> None:
    """Nothing is left behind the last one."""
    files.write(0, units(10))
    UnitFiles(Files(), files.directory.parents[2], "t", 0).write(3, units(2, 3))
    assert found(files) == units(5)
    files.cut(2)
    assert found(files) == units(2)
    files.cut(0)
    assert found(files) == []


@pytest.mark.parametrize("count", [0, 4, 5, 8])
def test_cut_anywhere(files: UnitFiles, count: int) -> None:
    """At the edges of files, too."""
    files.write(0, units(8))
    files.cut(count)
    assert found(files) == units(count)


def test_old_files_go(files: UnitFiles) -> None:
    """Those whose messages are all before an offset; one stays."""
    files.write(0, units(10))
    files.trim(11)
    assert len(files.spans()) == 3
    files.trim(12)
    assert found(files) == units(6, 4)
    files.trim(1000)
    assert found(files) == units(2, 8)


@pytest.mark.parametrize("at", [7, 11, 35, 37])
def test_units_end_where_one_cannot_follow(files: UnitFiles, at: int) -> None:
    """Position, size, first offset and number of messages: zeroed by a lost sector."""
    files.write(0, units(4))
    path = files.spans()[0].path
    data = bytearray(path.read_bytes())
    data[2 * UNIT_BYTES + at - 3 : 2 * UNIT_BYTES + at + 1] = bytes(4)
    path.write_bytes(data)
    assert found(files)[:2] == units(2)
    assert len(found(files)) < 4


def test_removal_leaves_no_folder(files: UnitFiles) -> None:
    """Nor that of the topic."""
    files.write(0, units(6))
    files.remove()
    assert not files.directory.parent.exists()
