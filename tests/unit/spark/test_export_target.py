"""The target folder: refused when in use, replaced in steps that a crash cannot mix up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aerobee.spark import export_target
from aerobee.spark.errors import ExportRefused
from aerobee.spark.export_target import check_target, commit, locked, remove_leftovers


def manifest(*paths: str) -> dict[str, Any]:
    """What an export of these files says of itself."""
    return {"store": "/s", "made": "today", "files": [{"path": path} for path in paths]}


def write(folder: Path, *paths: str) -> list[tuple[Path, str]]:
    """Files of a run, before they are moved into place."""
    moves = []
    for path in paths:
        source = folder / "_temporary-run" / path
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(path)
        moves.append((source, path))
    return moves


def visible(folder: Path) -> list[str]:
    """The data files that a reader of the export sees."""
    found = [path.relative_to(folder) for path in folder.rglob("*.parquet")]
    return sorted(str(path) for path in found if not path.parts[0].startswith("_"))


def test_commit_replaces_the_earlier_files_and_no_others(tmp_path: Path) -> None:
    """A file of somebody else in the folder stays."""
    with locked(tmp_path):
        check_target(tmp_path, overwrite=False)
        old = ["topic=a/date=1/x.parquet", "topic=b/date=1/x.parquet"]
        commit(tmp_path, manifest(*old), write(tmp_path, *old))
        remove_leftovers(tmp_path)
    assert visible(tmp_path) == old
    (tmp_path / "topic=a" / "notes.parquet").write_text("mine")
    with pytest.raises(ExportRefused, match="already holds an export of /s made today"):
        check_target(tmp_path, overwrite=False)
    with locked(tmp_path):
        check_target(tmp_path, overwrite=True)
        commit(tmp_path, manifest("topic=c/y.parquet"), write(tmp_path, "topic=c/y.parquet"))
    assert visible(tmp_path) == ["topic=a/notes.parquet", "topic=c/y.parquet"]
    assert (tmp_path / "_SUCCESS").exists()


@pytest.mark.parametrize("moved", [0, 1])
def test_run_that_dies_while_moving_is_cleaned_up_by_the_next(
    tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new files never stand side by side after the next run."""
    commit(tmp_path, manifest("a.parquet", "b.parquet"), write(tmp_path, "a.parquet", "b.parquet"))
    rename, moves = Path.rename, write(tmp_path, "c.parquet", "d.parquet")
    renamed: list[Path] = []

    def dying(self: Path, target: Path) -> Path:
        if self.suffix == ".parquet":
            if len(renamed) == moved:
                raise KeyboardInterrupt
            renamed.append(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        commit(tmp_path, manifest("c.parquet", "d.parquet"), moves)
    monkeypatch.undo()
    assert not (tmp_path / "_SUCCESS").exists()
    with pytest.raises(ExportRefused, match="an unfinished export"):
        check_target(tmp_path, overwrite=False)
    check_target(tmp_path, overwrite=True)
    remove_leftovers(tmp_path)
    commit(tmp_path, manifest("e.parquet"), write(tmp_path, "e.parquet"))
    assert visible(tmp_path) == ["e.parquet"]


def test_folders_of_others_are_refused_even_with_overwrite(tmp_path: Path) -> None:
    """Nothing is removed that an export did not write."""
    (tmp_path / "photo.jpg").write_text("")
    for overwrite in (False, True):
        with pytest.raises(ExportRefused, match=r"not empty and no earlier export \(photo.jpg"):
            check_target(tmp_path, overwrite=overwrite)
    with pytest.raises(ExportRefused, match="is no folder"), locked(tmp_path / "photo.jpg"):
        pass


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"files": 3}', json.dumps({**manifest("../x"), "state": "complete"})],
)
def test_damaged_or_hostile_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """Its paths decide what is deleted."""
    (tmp_path / export_target.MANIFEST).write_text(text)
    with pytest.raises(ExportRefused, match=r"is damaged|names files outside its folder"):
        check_target(tmp_path, overwrite=True)


def test_second_run_at_once_is_refused(tmp_path: Path) -> None:
    """The lock ends with the run, a killed one's too."""
    with (
        locked(tmp_path),
        pytest.raises(ExportRefused, match="another export is writing to"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass
