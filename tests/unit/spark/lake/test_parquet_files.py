"""Parquet files of an export: plain texts for their readers, dictionaries inside."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disks.stores import Stored
from support.lake.exports import go_on, grown

from aerobee.spark.at_rest import blocks
from aerobee.spark.lake import files as export_files

HOSTS = ("10.0.0.7", "10.0.0.8", "2001:db8::7")


def sent_by(number: int) -> Stored:
    """A message of one of many producers, some of them by IPv6."""
    host = HOSTS[number // 150 % 3]
    born_host = (host, 40_000 + number % 5)
    return Stored(born_host=born_host, sys_flag=16 if ":" in host else 0)


@pytest.mark.parametrize("block_bytes", [3_000, 8 << 20])
@pytest.mark.usefixtures("inline")
def test_hosts_are_texts_in_one_dictionary(
    tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever's messages come together in a block, and in however many."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(blocks, "READ_BYTES", 700)
    store = grown(tmp_path / "store", 600, sent_by)
    go_on(store, tmp_path / "lake")
    (path,) = (tmp_path / "lake").rglob("*.parquet")
    file = pq.ParquetFile(path)
    rows = file.read()
    found = rows["born_host"].to_pylist()
    for number, text in enumerate(found):
        host, port = sent_by(number).born_host
        assert text == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), number
    assert not any(pa.types.is_dictionary(kind) for kind in rows.schema.types)
    group = file.metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    for name in ("broker", "born_host", "store_host"):
        assert columns[name].has_dictionary_page
        assert columns[name].total_uncompressed_size < 1000, "no row holds a text of its own"
    assert rows["store_timestamp"].type == pa.timestamp("us", tz="UTC")
    assert file.metadata.num_row_groups == 1 and len(found) == 600


@pytest.mark.usefixtures("inline")
def test_row_groups_are_of_the_bytes_of_their_own_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of two topics that come in one block count for each by what they take."""
    monkeypatch.setattr(export_files, "ROW_GROUP_BYTES", 200_000)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 32 << 10)
    monkeypatch.setattr(blocks, "READ_BYTES", 4 << 10)

    def stored(number: int) -> Stored:
        topic, size = ("large", 3_000) if number % 2 else ("small", 10)
        return Stored(topic=topic, body=bytes(size))

    go_on(grown(tmp_path / "store", 800, stored), tmp_path / "lake")
    groups = {}
    for path in (tmp_path / "lake").rglob("*.parquet"):
        metadata = pq.ParquetFile(path).metadata
        groups[path.parts[-3]] = [
            metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)
        ]
    large, small = groups["topic=large"], groups["topic=small"]
    assert all(100_000 < size < 300_000 for size in large[:-1]) and len(large) > 3
    assert len(small) <= 3
