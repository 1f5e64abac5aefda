"""What a task of Spark's would write, written without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from aerobee.spark.sinks.plan import SinkPlan
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.sinks.task import SinkReport, write_rows

QUERY = "query"


def rows(count: int, first: int = 0, **more: Sequence[object]) -> pa.RecordBatch:
    """Rows with bodies of their own."""
    bodies = [b"row %d" % number for number in range(first, first + count)]
    return pa.RecordBatch.from_pydict({"body": bodies, **more})


def write(
    plan: SinkPlan, *batches: pa.RecordBatch, batch: int = 0, partition: int = 0, attempt: int = 0
) -> SinkReport:
    """Write as a task does."""
    return write_rows(plan, Attempted(plan.sink, QUERY, batch, partition), attempt, batches)


def once(count: int) -> Counter[object]:
    """Each of the rows once."""
    return Counter(b"row %d" % number for number in range(count))
