"""Exports that cannot write: what they say, what they leave behind, what counts all the same."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.lake.exports import Inline, go_on, grown, staged, stored, visible

from aerobee.spark import export, exported_files
from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.manifest import ExportedFile
from aerobee.spark.lake.owner import SILENT_S, Owner
from aerobee.spark.lake.synced_file import SyncedFile

pytestmark = pytest.mark.usefixtures("inline")


def refuse(code: int, *_: Any, **__: Any) -> Any:
    """Stands for a call of the system that fails."""
    raise OSError(code, os.strerror(code))


def test_disk_that_is_full_for_a_task_gets_its_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: Inline
) -> None:
    """What an attempt has written is gone before another one needs the room; then all goes well."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    left: list[str] = []

    def look(*_: Any) -> None:
        left.extend(
            path.name for run in (lake / "_aerobee/staging").iterdir() for path in run.glob("0*")
        )

    inline.run = _after(inline.run, look)  # type: ignore[method-assign]
    with monkeypatch.context() as full:
        full.setattr(SyncedFile, "close", partial(refuse, errno.ENOSPC))
        with pytest.raises(ExportFailed, match=r"cannot write below .*lake.*No space left"):
            go_on(store, lake)
    assert left == [] and staged(lake) == []
    assert go_on(store, lake).messages == 30


def _after(run: Any, look: Any) -> Any:
    """The same, and a look at what it leaves."""

    def both(*values: Any) -> Any:
        try:
            return run(*values)
        finally:
            look()

    return both


def test_failure_after_the_commit_says_that_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails when files are to get their places: the next run brings them there."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    linked = os.link

    def link(source: Path, target: Path) -> None:
        linked(source, target)
        patched.setattr(os, "rename", partial(refuse, errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", link)
        with pytest.raises(ExportFailed, match=r"version 1 of the export counts.*next run"):
            go_on(store, lake)
    assert not go_on(store, lake).added
    assert visible(lake) == stored(store) and staged(lake) == []


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Where the target should be there is a file, or nobody may write."""
    store = grown(tmp_path / "store", 3)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportFailed, match=r"cannot write below .*file/lake"):
        go_on(store, tmp_path / "file" / "lake")


def staged_elsewhere(lake: Path) -> Path:
    """Return the folder of a run that another machine has begun."""
    folder = lake / "_aerobee" / "staging" / "0123456789ab"
    folder.mkdir()
    elsewhere = replace(Owner.this_process(), system="another boot")
    (folder / "owner.json").write_text(json.dumps(asdict(elsewhere)))
    return folder


def test_readers_of_a_lake_need_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing waits to be published they look, whatever other runs have staged."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    go_on(store, lake)
    staged_elsewhere(lake)
    monkeypatch.setattr(os, "open", _readonly(os.open))
    monkeypatch.setattr(Path, "touch", partial(refuse, errno.EROFS))
    monkeypatch.setattr(os, "rename", partial(refuse, errno.EROFS))
    assert sum(file.rows for file in exported_files(lake)) == 10


def _readonly(opened: Any) -> Any:
    def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse(errno.EROFS)
        handle: int = opened(path, flags, *more, **named)
        return handle

    return open_


def test_clock_of_a_process_that_ended_does_not_stay(tmp_path: Path) -> None:
    """The file by which the file system's time is told is removed by whoever comes next."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    go_on(store, lake)
    (lake / "_aerobee" / "staging" / ".clock-1").touch()
    go_on(grown(store, 20), lake)
    assert staged(lake) == []


@pytest.mark.parametrize("wrong", [{"rows": "9"}, {"rows": -1}, {"bytes": None}, {"topic": 7}])
def test_file_in_a_manifest_that_is_none_is_damage(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """It is told with the manifest's name, and not by what fails later for it."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    go_on(store, lake)
    path = lake / "_aerobee" / "manifest-0000000001.json"
    values = json.loads(path.read_bytes())
    assert set(values["files"][0]) == set(ExportedFile.__dataclass_fields__)
    values["files"][0] |= wrong
    del values["crc32"]  # as a program would write it that has a bug
    path.write_text(json.dumps(values))
    with pytest.raises(ExportRefused, match=r"manifest-0000000001\.json is damaged"):
        exported_files(lake)


def test_silence_of_a_run_elsewhere_is_measured_without_a_trace(tmp_path: Path) -> None:
    """A run of another machine that was silent for a day is tidied up, and nothing else is left."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    go_on(store, lake)
    other = staged_elsewhere(lake)
    past = other.stat().st_mtime - SILENT_S - 60
    for path in (other / "owner.json", other):
        os.utime(path, (past, past))
    go_on(store, lake)
    assert staged(lake) == []


def test_a_lake_without_its_last_manifest_is_left_as_it_is(tmp_path: Path) -> None:
    """Its messages lie there already: they are not exported again, nor is anything removed."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 30)
    go_on(store, lake)
    (lake / "_aerobee" / "manifest-0000000002.json").unlink()
    before = visible(lake)
    for overwrite in (False, True):
        with pytest.raises(ExportRefused, match=r"manifest-0000000002\.json is missing"):
            export(store, lake, incremental=not overwrite, overwrite=overwrite)
        assert visible(lake) == before
