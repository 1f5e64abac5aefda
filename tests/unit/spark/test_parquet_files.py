"""Parquet by topic and day: every row once, in order, with bounded memory and open files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stores import Stored, pack_record

from aerobee.spark import parquet_files
from aerobee.spark.layout import SLACK_BYTES, Records
from aerobee.spark.parquet_files import (
    DAY_MS,
    ParquetFiles,
    Partition,
    day_text,
    escape_path,
    group,
)

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"BATCHES_MAX": 2},
        {"BUFFERED_BYTES_MAX": 50},
        {"OPEN_FILES_MAX": 2, "BUFFERED_BYTES_MAX": 50},
    ],
)
def test_rows_survive_every_limit(
    tmp_path: Path, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few open files make more files, little memory makes more row groups."""
    for name, value in limits.items():
        monkeypatch.setattr(parquet_files, name, value)
    chance = random.Random(3)
    files = ParquetFiles(tmp_path, SCHEMA, name="0-run", compression="zstd")
    expected: dict[Partition, list[int]] = {}
    for number in range(60):
        partition = Partition(chance.choice("abc"), chance.randrange(2))
        rows = list(range(number * 10, number * 10 + chance.randrange(1, 10)))
        expected.setdefault(partition, []).extend(rows)
        batch = pa.RecordBatch.from_arrays([pa.array(rows)], schema=SCHEMA)
        files.add(partition, batch, (rows[0], rows[-1]))
    written = files.close()
    found: dict[Partition, list[int]] = {}
    for file in written:
        table = pq.ParquetFile(tmp_path / file.path).read()
        rows = table["n"].to_pylist()
        assert (file.rows, file.bytes) == (len(rows), (tmp_path / file.path).stat().st_size)
        assert (file.store_timestamp_min, file.store_timestamp_max) == (rows[0], rows[-1])
        found.setdefault(file.partition, []).extend(rows)
    assert found == expected
    assert len({file.path for file in written}) == len(written)
    assert (len(written) > len(expected)) == ("OPEN_FILES_MAX" in limits)


def test_records_are_grouped_in_the_logs_order() -> None:
    """By topic and by the UTC day of the store timestamp."""
    messages = [
        Stored(topic="b", store_timestamp=DAY_MS * 3),
        Stored(topic="a", store_timestamp=DAY_MS * 3 - 1),
        Stored(topic="b", store_timestamp=DAY_MS * 4 - 1),
        Stored(topic="a", store_timestamp=DAY_MS * 3),
    ]
    raw = [pack_record(message, 0, 0) for message in messages]
    sizes = np.array([len(record) for record in raw])
    data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
    records = Records(data, 0, np.cumsum(sizes) - sizes, sizes)
    found = {partition: rows.tolist() for partition, rows in group(records)}
    assert found == {Partition("b", 3): [0, 2], Partition("a", 2): [1], Partition("a", 3): [3]}


def test_folder_names_are_hives() -> None:
    """Retry topics hold a percent sign; wild days stay inside the calendar."""
    assert Partition("%RETRY%g", 20_000).folder == "topic=%25RETRY%25g/date=2024-10-04"
    assert escape_path("a/b=c:d") == "a%2Fb%3Dc%3Ad"
    assert (day_text(-(10**9)), day_text(10**9)) == ("0001-01-01", "9999-12-31")
