"""An export read back as its manifest has it, whatever else stands in the folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.folders import cut_topic
from aerobee.spark.lake.formats import exported_schema
from aerobee.spark.lake.lake import DELTA, Lake
from aerobee.spark.lake.manifest import ExportedFile, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def exported_files(out_dir: str | Path, version: int | None = None) -> list[ExportedFile]:
    """The files that count in an export, the oldest first; of the last version or an earlier one.

    Files of a run that ended between its commit and their renames are renamed first. Of a Delta
    table they are those that exports have added, whatever OPTIMIZE has made of them. Raises
    ExportRefused where there is no export, no such version, or it was replaced; ExportFailed where
    files of it cannot be brought to their places.
    """
    lake = Lake(out_dir)
    last = _last(lake)
    asked = last.version if version is None else version
    if not 1 <= asked <= last.version:
        raise ExportRefused(
            f"{lake.root} has no version {asked} of its export: there are 1 to {last.version}"
        )
    if last.format != DELTA:
        _check_kept(lake, asked, last.version)
    lake.publish_committed()
    for waiting, reason in lake.waiting.items():
        if waiting <= asked:
            raise ExportFailed(reason)
    return lake.log.files(asked)


def _check_kept(lake: Lake, asked: int, last: int) -> None:
    """Refuse a version whose files a later one has replaced."""
    for later in lake.log.backwards(last):
        if later.version <= asked:
            return
        if later.replaces:
            raise ExportRefused(
                f"version {asked} of the export in {lake.root} was replaced by version"
                f" {later.version}: its files are gone"
            )


def read_export(spark: SparkSession, out_dir: str | Path) -> DataFrame:
    """The messages of an export: those files that its manifest names, each complete.

    A plain `spark.read.parquet(out_dir)` sees the same once all renames are done; during them it
    sees a part of the newest run's files. Raises ExportRefused.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    root = Lake(out_dir).root.absolute()
    manifest = _last(Lake(root))
    if manifest.format == DELTA:
        raise ExportRefused(
            f"{root} is a Delta table: spark.read.format('delta').load(...) reads it"
        )
    schema = exported_schema(manifest.properties)
    if manifest.format == "json":
        text = [pa.field(name, pa.string()) for name in ("body", "body_base64")]
        schema = pa.schema([*(field for field in schema if field.name != "body"), *text])
    files = exported_files(root)
    if not files:
        return spark.createDataFrame([], from_arrow_schema(schema))
    paths = [f"file://{_literal(f'{root}/{file.path}')}" for file in files]
    reader = spark.read.option("basePath", f"file://{root}").schema(from_arrow_schema(schema))
    rows = reader.json(paths) if manifest.format == "json" else reader.parquet(*paths)
    topics = {file.topic for file in files}
    cut: dict[Any, Any] = {short: each for each in topics if (short := cut_topic(each))}
    return rows.replace(cut, subset=["topic"]) if cut else rows


def _literal(path: str) -> str:
    """The path as Hadoop takes it for itself, and not for a pattern."""
    return re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", path)


def _last(lake: Lake) -> Manifest:
    manifest = lake.log.last()
    if manifest is None:
        raise ExportRefused(f"{lake.root} holds no export")
    return manifest
