"""A disk that refuses at each step of a run: nothing twice or lost, and the next run goes on."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.lake.exports import bury, go_on, grown, staged, stored, visible

from aerobee.spark import exported_files
from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports.exporter import export_as
from aerobee.spark.exports.options import checked_options
from aerobee.spark.lake.disk import Disk
from aerobee.spark.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("inline")


class Faulty(Disk):
    """Refuses one kind of call: the one of a number, or from that one on all of them.

    With `late` the call is carried out, and only its answer is an error.
    """

    def __init__(self, call: str, code: int, *, at: int, on: bool, late: bool = False) -> None:
        self._call, self._code = call, code
        self._at, self._on, self._late = at, on, late
        self.seen = 0

    def _refuses(self, call: str) -> bool:
        if call != self._call:
            return False
        self.seen += 1
        return self.seen == self._at or (self._on and self.seen > self._at)

    def _carried_out(self, call: str, *values: Any) -> Any:
        refuses = self._refuses(call)
        if refuses and not self._late:
            raise OSError(self._code, os.strerror(self._code))
        done = getattr(super(), call)(*values)
        if refuses:
            raise OSError(self._code, os.strerror(self._code))
        return done

    def open(self, path: Path, flags: int = 0) -> int:
        """Likewise."""
        handle: int = self._carried_out("open", path, flags)
        return handle

    def write(self, handle: int, data: Any) -> int:
        """Likewise."""
        count: int = self._carried_out("write", handle, data)
        return count

    def fsync(self, handle: int) -> None:
        """Refuse it, or do nothing: a disk that keeps its power forgets nothing."""
        if self._refuses("fsync"):
            raise OSError(self._code, os.strerror(self._code))

    def link(self, source: Path, target: Path) -> None:
        """Likewise."""
        self._carried_out("link", source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Likewise."""
        self._carried_out("rename", source, target)

    def make_folder(self, path: Path) -> None:
        """Likewise."""
        self._carried_out("make_folder", path)

    def make_folders(self, path: Path) -> list[Path]:
        """Likewise."""
        made: list[Path] = self._carried_out("make_folders", path)
        return made

    def remove(self, path: Path) -> None:
        """Likewise."""
        self._carried_out("remove", path)

    def names(self, folder: Path) -> list[str]:
        """Likewise."""
        names: list[str] = self._carried_out("names", folder)
        return names

    def status(self, path: Path) -> os.stat_result:
        """Likewise."""
        status: os.stat_result = self._carried_out("status", path)
        return status


FAULTS = [
    ("open", errno.ENOSPC),
    ("write", errno.ENOSPC),
    ("fsync", errno.EIO),
    ("link", errno.EIO),
    ("rename", errno.EIO),
    ("make_folder", errno.ENOSPC),
    ("make_folders", errno.ENOSPC),
    ("names", errno.EIO),
    ("status", errno.EIO),
]


@pytest.mark.parametrize("on", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize(("call", "code"), FAULTS, ids=[call for call, _ in FAULTS])
def test_a_call_that_fails_at_any_step_costs_nothing(
    tmp_path: Path, call: str, code: int, on: bool
) -> None:
    """Readers see each message at most once, and what counts is told; the next run has them all."""
    begun, store = tmp_path / "begun", tmp_path / "store"
    go_on(grown(store, 20), begun)
    first = stored(store)
    grown(store, 32)
    for at in range(1, 100):
        lake = Path(shutil.copytree(begun, tmp_path / f"lake-{at}"))
        disk = Faulty(call, code, at=at, on=on)
        refused = run_on(disk, store, lake)
        check(lake, first, store)
        if refused:
            assert f"{os.strerror(code)}" in refused
        if disk.seen < at:
            break
    assert 1 < at < 99, "every call of the kind was refused once"


@pytest.mark.parametrize("call", ["link", "rename"])
def test_a_call_whose_answer_is_lost_costs_nothing(tmp_path: Path, call: str) -> None:
    """What was linked counts, and the error says so; what was moved is in its place."""
    begun, store = tmp_path / "begun", tmp_path / "store"
    go_on(grown(store, 20), begun)
    first = stored(store)
    grown(store, 32)
    for at in range(1, 100):
        lake = Path(shutil.copytree(begun, tmp_path / f"lake-{at}"))
        disk = Faulty(call, errno.EIO, at=at, on=False, late=True)
        refused = run_on(disk, store, lake)
        if refused:
            assert "version 2 of the export counts" in refused
        check(lake, first, store)
        if disk.seen < at:
            break
    assert 1 < at < 99


@pytest.mark.parametrize(
    ("call", "code"),
    [("remove", errno.EACCES), ("rename", errno.EIO), ("link", errno.EIO), ("fsync", errno.EIO)],
)
def test_a_replacing_run_that_is_refused_shows_old_or_new(
    tmp_path: Path, call: str, code: int
) -> None:
    """Never both of them; the next look of a reader completes what was decided."""
    begun, store = tmp_path / "begun", tmp_path / "store"
    go_on(grown(store, 24), begun)
    old = visible(begun)
    new = [place for place in old if place[1] == "orders"]
    for at in range(1, 100):
        lake = Path(shutil.copytree(begun, tmp_path / f"lake-{at}"))
        disk = Faulty(call, code, at=at, on=False)
        run_on(disk, store, lake, topics=["orders"], overwrite=True, incremental=False)
        assert len(visible(lake)) == len(set(visible(lake)))
        bury(lake)
        rows = sum(file.rows for file in exported_files(lake))
        assert visible(lake) in (old, new) and rows == len(visible(lake))
        if disk.seen < at:
            break
    assert visible(lake) == new and 1 < at < 99


def run_on(disk: Disk, store: Path, lake: Path, **more: Any) -> str:
    """Export to a lake on a disk; what a failure says."""
    wanted: Any = {"incremental": True, **more}
    options = checked_options(store, lake, wanted)
    try:
        export_as(replace(options, lake=Lake(lake, disk)))
    except ExportFailed as error:
        return str(error)
    return ""


def check(lake: Path, first: list[Any], store: Path) -> None:
    """Nothing is lost or twice in a lake, before the next run and after it."""
    assert len(visible(lake)) == len(set(visible(lake)))
    assert set(first) <= set(visible(lake)) <= set(stored(store))
    bury(lake)
    assert run_on(Faulty("none", 0, at=0, on=False), store, lake) == ""
    assert visible(lake) == stored(store)
    assert sum(file.rows for file in exported_files(lake)) == len(stored(store))
    assert staged(lake) == []
