"""The export: every message once, files that appear together, a second run that is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.disks.stores import Stored, StoreWriter, read_log
from support.lake.exports import grown

from aerobee.spark import ExportRefused, export, exported_files, read_export
from aerobee.spark.lake.folders import cut_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def exported(target: Path) -> list[tuple[Any, ...]]:
    """Topic, position and body of what pyarrow finds in an export, in the log's order."""
    import pyarrow.dataset as ds

    table = ds.dataset(target, format="parquet", partitioning="hive").to_table()
    rows = sorted(table.to_pylist(), key=lambda row: row["commit_log_offset"])
    return [
        (row["topic"], row["date"], row["commit_log_offset"], row["body"], dict(row["properties"]))
        for row in rows
    ]


def expected(store: Path, **only: object) -> list[tuple[Any, ...]]:
    """The same from the struct loop."""
    from datetime import UTC, datetime

    return [
        (
            row["topic"],
            datetime.fromtimestamp(row["store_timestamp"] / 1000, UTC).date().isoformat(),
            row["commit_log_offset"],
            row["body"],
            row["properties"],
        )
        for row in read_log(store)
        if all(row[name] == value for name, value in only.items())
    ]


def test_export_holds_every_message_once(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Read back by pyarrow and by Spark; a second run is refused, overwriting replaces."""
    target = tmp_path / "lake"
    seen: list[tuple[int, int]] = []
    summary = export(store, target, spark=spark, progress=lambda *done: seen.append(done))
    assert exported(target) == expected(store)
    assert seen[-1] == (1, 1), "a small store is one task"
    assert spark.read.parquet(str(target)).where("topic = '%RETRY%billing'").count() == 200
    assert {topic.topic: topic.messages for topic in summary.topics}["payments"] == 200
    assert summary.messages == 2000
    before = sorted(target.rglob("*"))
    with pytest.raises(ExportRefused, match="already holds an export of"):
        export(store, target, spark=spark)
    assert sorted(target.rglob("*")) == before
    export(store, target, topics=["payments"], overwrite=True, spark=spark)
    assert exported(target) == expected(store, topic="payments")
    assert [path.name for path in target.glob("topic=*")] == ["topic=payments"]


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_export_is_read_back_as_its_manifest_has_it(
    spark: SparkSession, store: Path, tmp_path: Path, format: str
) -> None:
    """Every row with its types; a file that no run has committed is not among them."""
    from pyspark.sql import functions as f

    target = tmp_path / "lake"
    export(store, target, format=format, topics=["payments", "%RETRY%billing"], spark=spark)
    known = next((target / "topic=payments").glob("date=*/*"))
    shutil.copy(known, known.with_name(f"stray-{known.name}"))
    rows = read_export(spark, target)
    kinds = dict(rows.dtypes)
    assert (kinds["store_timestamp"], kinds["topic"]) == ("timestamp", "string")
    assert (kinds["date"], kinds["properties"]) == ("date", "map<string,string>")
    body = f.to_binary("body", f.lit("utf-8")) if format == "json" else f.col("body")
    if format == "json":
        body = f.coalesce(f.unbase64("body_base64"), body)
    columns: list[Any] = ["topic", f.col("date").cast("string"), "commit_log_offset", body]
    found = [
        tuple(row)
        for row in rows.orderBy("commit_log_offset").select(*columns, "properties").collect()
    ]
    wanted = [row for row in expected(store) if row[0] in ("payments", "%RETRY%billing")]
    assert [(*row[:3], bytes(row[3]), row[4]) for row in found] == wanted


def test_binary_properties_become_maps_again(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """By Spark's own functions, of each message, whether its last property is closed or not."""
    target = tmp_path / "lake"
    export(store, target, properties="binary", spark=spark)
    rows = read_export(spark, target)
    assert dict(rows.dtypes)["properties"] == "binary"
    text = r"trim(trailing '\u0002' from decode(properties, 'UTF-8'))"
    as_map = rf"str_to_map({text}, '\u0002', '\u0001')"
    found = rows.orderBy("commit_log_offset").selectExpr(as_map).collect()
    assert [row[0] for row in found] == [row[-1] for row in expected(store)]


@pytest.mark.parametrize("name", ["la[k]e", "la{k,e}", "la*", "la?e", "la\\ke", "la%25 e#"])
def test_lake_of_any_name_is_read_back(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Signs of patterns stand for themselves, and others' files that they would find stay out."""
    wanted = grown(tmp_path / "store", 10)
    for folder in (name, "lake"):
        export(wanted, tmp_path / folder, spark=spark)
    shutil.copytree(tmp_path / name, tmp_path / "late", dirs_exist_ok=True)
    assert read_export(spark, tmp_path / name).count() == 10


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_topic_with_a_long_name_is_read_back(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    """By its manifest under its own name, by its folder under one that is cut."""
    long = "%RETRY%" + "%" * 80 + "g" * 160
    wanted = grown(tmp_path / "s", 10, lambda number: Stored(topic=[long, "orders"][number % 2]))
    lake = tmp_path / "lake"
    export(wanted, lake, format=format, spark=spark)
    rows = read_export(spark, lake)
    counted = {row["topic"]: row["count"] for row in rows.groupBy("topic").count().collect()}
    assert counted == {long: 5, "orders": 5}
    assert rows.where(rows["topic"] == long).count() == 5
    plain = spark.read.format(format).load(str(lake)).select("topic").distinct().collect()
    assert {row["topic"] for row in plain} == {cut_topic(long), "orders"}


def test_failed_export_leaves_the_target_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Damage in the log stops the export with its position, and nothing is visible."""
    from aerobee.remoting.errors import CorruptRecord

    writer = StoreWriter(tmp_path / "store", 4096)
    while len(writer.segments) < 4:
        writer.append(Stored(body=b"x" * 300))
    writer.segments[4096][400:450] = bytes(50)
    store = writer.close()
    target = tmp_path / "lake"
    with pytest.raises(CorruptRecord, match="log position 4493 points at bytes that are no"):
        export(store, target, spark=spark)
    assert [path.name for path in target.rglob("*")] == ["_aerobee", "staging"]


def test_empty_store_exports_as_nothing_without_spark(tmp_path: Path) -> None:
    """No session is started for an empty plan; the folder is taken all the same."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    summary = export(tmp_path / "store", tmp_path / "lake")
    assert (summary.messages, summary.files, summary.topics) == (0, 0, [])
    assert exported_files(tmp_path / "lake") == []
    with pytest.raises(ExportRefused, match="already holds an export"):
        export(tmp_path / "store", tmp_path / "lake")
