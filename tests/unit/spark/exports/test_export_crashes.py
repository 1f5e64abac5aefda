"""An export that ends at any of its steps: nothing twice for readers, nothing lost for the next."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.lake.exports import Inline, bury, go_on, grown, staged, stored, visible

from aerobee.spark import export, exported_files
from aerobee.spark.lake.lake import Lake

STEPS = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "open"}


class Died(BaseException):
    """The end of the process; nothing that it would still do has an effect."""


class Death:
    """Ends this process, for all that changes the lake, at a given one of its steps.

    Audit hooks stay for good, so there is one, that looks at what is wanted now.
    """

    def __init__(self) -> None:
        self.lake = ""
        self.at = self.seen = 0
        sys.addaudithook(self._hear)

    def plan(self, lake: Path, at: int) -> None:
        """Die at step `at` of those that change files in `lake`."""
        self.lake, self.at, self.seen = str(lake), at, 0

    def cancel(self) -> None:
        """Live on."""
        self.lake = ""

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if not self.lake or event not in STEPS:
            return
        if event == "open" and not values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if any(str(value).startswith(self.lake) for value in values):
            self.seen += 1
            if self.seen >= self.at:
                raise Died(event)


DEATH = Death()


def dies(lake: Path, step: int, work: Callable[[], object]) -> bool:
    """Whether the work was ended at that step, rather than done."""
    DEATH.plan(lake, step)
    try:
        work()
    except Died:
        return True
    finally:
        DEATH.cancel()
    return False


def once(places: list[Any]) -> bool:
    """Whether nothing is there twice."""
    return len(places) == len(set(places))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark, and no waiting for the disk: a process that ends does not take it along."""
    Inline().use(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_nothing_is_twice_or_lost_wherever_a_run_ends(format: str, tmp_path: Path) -> None:
    """Each step of an incremental run is its last once; the next run makes up for it."""
    if format == "delta":
        pytest.importorskip("deltalake")
    begun, store = tmp_path / "begun", tmp_path / "store"
    grown(store, 20)
    go_on(store, begun, format=format)
    first = stored(store)
    grown(store, 32)
    for step in range(1, 200):
        lake = Path(shutil.copytree(begun, tmp_path / f"lake-{step}"))
        died = dies(lake, step, partial(go_on, store, lake, format=format))
        if format == "parquet":
            assert once(visible(lake)), f"step {step}"
            assert set(first) <= set(visible(lake)) <= set(stored(store)), f"step {step}"
        bury(lake)
        go_on(store, lake, format=format)
        assert seen(lake, format) == stored(store), f"step {step}"
        assert sum(file.rows for file in exported_files(lake)) == 32
        assert staged(lake) == []
        if not died:
            break
    assert 10 < step < 199, "every step was tried"


def seen(lake: Path, format: str) -> list[Any]:
    """What readers of the format see."""
    if format == "parquet":
        return visible(lake)
    from deltalake import DeltaTable

    columns = ["broker", "topic", "queue_id", "queue_offset"]
    table = DeltaTable(str(lake)).to_pyarrow_table(columns=columns)
    return sorted(zip(*table.to_pydict().values(), strict=True))


def test_replacing_run_that_ends_anywhere_is_done_or_undone(
    tmp_path: Path,
) -> None:
    """Old and new files are never seen together, and the next run completes what was decided."""
    begun, store = tmp_path / "begun", tmp_path / "store"
    grown(store, 24)
    export(store, begun)
    old = visible(begun)
    for step in range(1, 200):
        lake = Path(shutil.copytree(begun, tmp_path / f"lake-{step}"))
        again = partial(export, store, lake, topics=["orders"], overwrite=True)
        died = dies(lake, step, again)
        new = [place for place in old if place[1] == "orders"]
        assert once(visible(lake)), f"step {step}"
        bury(lake)
        files = exported_files(lake)
        assert visible(lake) in (old, new), f"step {step}"
        assert len(visible(lake)) == sum(file.rows for file in files)
        Lake(lake).settle()
        assert staged(lake) == []
        if not died:
            break
    assert visible(lake) == new and 10 < step < 199
