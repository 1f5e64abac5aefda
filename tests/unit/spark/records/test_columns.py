"""The table of columns, and what knowing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from aerobee.spark.records.columns import COLUMNS, arrow_schema, arrow_types


def test_every_column_has_its_types() -> None:
    """In Arrow, with the nulls that the table says."""
    types = arrow_types()
    schema = arrow_schema([column.name for column in COLUMNS])
    for column, field in zip(COLUMNS, schema, strict=True):
        assert field.type == types[column.types[0]]
        assert field.nullable == column.nullable
        assert set(column.types) <= set(types)


def test_spark_knows_the_same_types() -> None:
    """A type of the table that Spark's side lacked would be found by a user."""
    pytest.importorskip("pyspark")
    from aerobee.spark.source import _SPARK_TYPES

    assert set(_SPARK_TYPES) == set(arrow_types())


def test_who_asks_for_the_columns_alone_imports_little() -> None:
    """Spark does in a process of its own, for each query."""
    pytest.importorskip("pyspark")
    code = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules);"
        " import aerobee.spark.source;"
        " print(sorted({'numpy', 'pyarrow', 'pandas', 'isal'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
