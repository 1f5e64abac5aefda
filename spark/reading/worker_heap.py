"""The objects of a Spark worker that nobody needs to look through again and again."""

from __future__ import annotations

import gc
from functools import cache


def settle_heap() -> None:
    """Have Python's collector pass over what a worker has after its first task; for a task's end.

    PySpark collects garbage after every task (pyspark/daemon.py, `manager`), and what its modules,
    pyarrow's and numpy's consist of takes 40 ms each time. Does nothing outside of a task.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
