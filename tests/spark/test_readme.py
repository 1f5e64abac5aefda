"""The examples of the Spark reader's README run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
README = Path(__file__).parents[2] / "spark" / "README.md"


def test_examples_run(
    spark: SparkSession, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every Python block, one after the other, with a store in place of STORE."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {"STORE": str(store)}
    for number, block in enumerate(blocks, 1):
        code = block.replace("/tmp/lake", str(tmp_path / "lake"))
        exec(compile(code, f"README block {number}", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    assert "10.0.0.7:7" in printed, "the search by key finds its message"
    assert re.search(r"\| +\d+\|order-\d+ k\|", printed), "binary properties tell their keys"
    assert "1400" in printed, "the export's summary counts the topic's messages"
