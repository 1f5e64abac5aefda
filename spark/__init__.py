"""A Spark data source over the broker's log, and an export to Parquet through it.

    from aerobee.spark import session
    spark = session()                      # or: register(your_session)
    messages = spark.read.format("rocketmq").option("path", "STORE").load()

Importing this package imports neither PySpark nor pyarrow; the names below do when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aerobee.remoting.extras import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aerobee.spark.errors import (
        DataLost,
        ExportFailed,
        ExportRefused,
        JavaMissing,
        OptionError,
        StoreUnreadable,
    )
    from aerobee.spark.exports.exporter import export
    from aerobee.spark.exports.read_back import exported_files, read_export
    from aerobee.spark.exports.summary import ExportSummary
    from aerobee.spark.sessions.local import session

__all__ = [
    "DataLost",
    "ExportFailed",
    "ExportRefused",
    "ExportSummary",
    "JavaMissing",
    "OptionError",
    "StoreUnreadable",
    "export",
    "exported_files",
    "read_export",
    "register",
    "session",
]

_ERRORS = "aerobee.spark.errors"
_HOMES = {
    "DataLost": _ERRORS,
    "ExportFailed": _ERRORS,
    "ExportRefused": _ERRORS,
    "ExportSummary": "aerobee.spark.exports.summary",
    "JavaMissing": _ERRORS,
    "OptionError": _ERRORS,
    "StoreUnreadable": _ERRORS,
    "export": "aerobee.spark.exports.exporter",
    "exported_files": "aerobee.spark.exports.read_back",
    "read_export": "aerobee.spark.exports.read_back",
    "session": "aerobee.spark.sessions.local",
}


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session that somebody else has made."""
    need("spark", "aerobee.spark.register")
    from aerobee.spark.source import RocketMQSource

    spark.dataSource.register(RocketMQSource)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if home != _ERRORS:
        need("spark", f"aerobee.spark.{name}")
    return getattr(import_module(home), name)
