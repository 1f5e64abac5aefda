"""Files by topic and day: every row once, in order, with bounded memory and open files."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aerobee.spark.lake import files as export_files
from aerobee.spark.lake.disk import DISK
from aerobee.spark.lake.files import PartitionedFiles
from aerobee.spark.lake.folders import Partition, day_text, escape_path
from aerobee.spark.lake.formats import Format
from aerobee.spark.lake.manifest import ExportedFile

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
FILE_BYTES = 1 << 30


def opened(folder: Path, file_bytes: int = FILE_BYTES) -> PartitionedFiles:
    """Parquet files in a folder."""
    chosen = Format("parquet", "zstd")
    sink = chosen.opener(DISK, SCHEMA, ordered=True)
    return PartitionedFiles(folder, sink, name="0-run", ending=chosen.ending, file_bytes=file_bytes)


def partition_of(file: ExportedFile) -> tuple[str, str]:
    """The partition that a written file says it is of."""
    assert file.path.startswith(f"topic={file.topic}/date={file.date}/0-run-")
    return file.topic, file.date


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"BATCHES_MAX": 2},
        {"BUFFERED_BYTES_MAX": 50},
        {"OPEN_FILES_MAX": 2, "BUFFERED_BYTES_MAX": 50},
        {"ROW_GROUP_BYTES": 50},
    ],
)
def test_rows_survive_every_limit(
    tmp_path: Path, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few open files make more files, little memory makes more row groups."""
    for name, value in limits.items():
        monkeypatch.setattr(export_files, name, value)
    chance = random.Random(3)
    files = opened(tmp_path, 500 if "ROW_GROUP_BYTES" in limits else FILE_BYTES)
    expected: dict[tuple[str, str], list[int]] = {}
    for number in range(60):
        partition = Partition(chance.choice("abc"), chance.randrange(2))
        rows = list(range(number * 10, number * 10 + chance.randrange(1, 10)))
        expected.setdefault((partition.topic, day_text(partition.day)), []).extend(rows)
        batch = pa.RecordBatch.from_arrays([pa.array(rows)], schema=SCHEMA)
        files.add(partition, batch, batch.nbytes, (rows[0], rows[-1]))
    written = files.close()
    found: dict[tuple[str, str], list[int]] = {}
    for file in written:
        path = tmp_path.parent / file.staged
        rows = pq.ParquetFile(path).read()["n"].to_pylist()
        assert (file.rows, file.bytes) == (len(rows), path.stat().st_size)
        assert (file.first_ms, file.last_ms) == (rows[0], rows[-1])
        found.setdefault(partition_of(file), []).extend(rows)
    assert found == expected
    assert len({file.path for file in written}) == len(written)
    several = bool({"OPEN_FILES_MAX", "ROW_GROUP_BYTES"} & set(limits))
    assert (len(written) > len(expected)) == several


def test_folder_names_are_hives() -> None:
    """Retry topics hold a percent sign; wild days stay inside the calendar."""
    assert Partition("%RETRY%g", 20_000).folder == "topic=%25RETRY%25g/date=2024-10-04"
    assert escape_path("a/b=c:d") == "a%2Fb%3Dc%3Ad"
    assert (day_text(-(10**9)), day_text(10**9)) == ("0001-01-01", "9999-12-31")
