"""The heap of a worker that has done a task is passed over by the collector; no other is."""

from __future__ import annotations

import gc

import pytest
from pyspark import TaskContext

from aerobee.spark.reading import worker_heap


def test_a_worker_freezes_once_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there at the end of the first task; a driver's or a program's heap is its own."""
    frozen: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: frozen.append("collected"))
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("frozen"))
    worker_heap._freeze.cache_clear()
    worker_heap.settle_heap()
    assert frozen == []
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    try:
        worker_heap.settle_heap()
        worker_heap.settle_heap()
    finally:
        worker_heap._freeze.cache_clear()
    assert frozen == ["collected", "frozen"]
