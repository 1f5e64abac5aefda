"""An export read back as its manifest has it, whatever else stands in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from aerobee.spark.columns import arrow_schema
from aerobee.spark.errors import ExportRefused
from aerobee.spark.export_lake import DELTA, Lake
from aerobee.spark.export_task import EXPORTED
from aerobee.spark.manifest import ExportedFile, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = (("topic", pa.string()), ("date", pa.date32()))


def exported_files(out_dir: str | Path, version: int | None = None) -> list[ExportedFile]:
    """The files that count in an export, the oldest first; of the last version or an earlier one.

    Files of a run that ended between its commit and their renames are renamed first. Of a Delta
    table they are those that exports have added, whatever OPTIMIZE has made of them. Raises
    ExportRefused where there is no export.
    """
    lake = Lake(Path(out_dir))
    manifest = _last(lake)
    lake.publish_committed()
    return lake.log.files(manifest.version if version is None else version)


def exported_schema() -> pa.Schema:
    """The columns of an exported table, those of the folders' names among them."""
    folders = [pa.field(name, kind, nullable=False) for name, kind in _PARTITIONS]
    return pa.schema([*arrow_schema(EXPORTED), *folders])


def read_export(spark: SparkSession, out_dir: str | Path) -> DataFrame:
    """The messages of an export: those files that its manifest names, each complete.

    A plain `spark.read.parquet(out_dir)` sees the same once all renames are done; during them it
    sees a part of the newest run's files. Raises ExportRefused.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    root = Path(out_dir).absolute()
    manifest = _last(Lake(root))
    if manifest.format == DELTA:
        raise ExportRefused(
            f"{root} is a Delta table: spark.read.format('delta').load(...) reads it"
        )
    schema = exported_schema()
    if manifest.format == "json":
        text = [pa.field(name, pa.string()) for name in ("body", "body_base64")]
        schema = pa.schema([*(field for field in schema if field.name != "body"), *text])
    files = [f"file://{root}/{file.path}" for file in exported_files(root)]
    if not files:
        return spark.createDataFrame([], from_arrow_schema(schema))
    reader = spark.read.option("basePath", f"file://{root}").schema(from_arrow_schema(schema))
    return reader.json(files) if manifest.format == "json" else reader.parquet(*files)


def _last(lake: Lake) -> Manifest:
    manifest = lake.log.last()
    if manifest is None:
        raise ExportRefused(f"{lake.root} holds no export")
    return manifest
