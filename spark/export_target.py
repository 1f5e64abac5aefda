"""The folder an export goes to: who may write it, and how a run becomes visible.

A run writes below `_temporary-<run>`, which Spark, Hive and pyarrow do not look into, and moves
its files into place when all of them are complete. The manifest says at every moment which
files belong to the export: a run that died while moving them is cleaned up by the next one with
`overwrite`.

    step                                   a crash after it leaves
    1 write _temporary-<run>/...           the earlier export untouched
    2 remove _SUCCESS                      the earlier export, not marked as complete
    3 manifest "committing", old and new   files of either run, all named in the manifest
    4 remove old files, move new ones      likewise
    5 manifest "complete", _SUCCESS        the new export
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aerobee.spark.errors import ExportRefused

MANIFEST = "_aerobee_export.json"
SUCCESS = "_SUCCESS"
LOCK = ".aerobee-export.lock"
TEMPORARY = "_temporary-"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, made if need be, for one run. Raises ExportRefused if another has it."""
    if folder.exists() and not folder.is_dir():
        raise ExportRefused(f"{folder} is no folder: name one that does not exist, or is empty")
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ExportRefused(f"another export is writing to {folder} at this moment") from None
        yield
    finally:
        os.close(handle)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds an earlier export, or anything that is not ours."""
    manifest = read_manifest(folder)
    if manifest is not None:
        if overwrite:
            return
        state = "an export" if manifest["state"] == "complete" else "an unfinished export"
        raise ExportRefused(
            f"{folder} already holds {state} of {manifest['store']} made {manifest['made']}:"
            " exporting once more would double its messages; overwrite it (--overwrite) or name"
            " another folder"
        )
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != LOCK and not name.startswith(TEMPORARY)]
    if foreign:
        raise ExportRefused(
            f"{folder} is not empty and no earlier export ({foreign[0]} is not ours): name a"
            " folder that does not exist, or is empty"
        )


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of the export in `folder`, None if there is none. Raises ExportRefused."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        paths = [file["path"] for file in manifest["files"]]
        paths += manifest.get("replaced", [])
        _ = manifest["state"], manifest["store"], manifest["made"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ExportRefused(
            f"{folder / MANIFEST} is damaged ({error}): move the folder away, or export to another"
        ) from error
    if any(Path(path).is_absolute() or ".." in Path(path).parts for path in paths):
        raise ExportRefused(f"{folder / MANIFEST} names files outside its folder: not ours")
    return dict(manifest)


def remove_leftovers(folder: Path) -> None:
    """Remove what runs that died have left; only under the lock."""
    for path in folder.glob(f"{TEMPORARY}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def commit(folder: Path, manifest: dict[str, Any], moves: Iterable[tuple[Path, str]]) -> None:
    """Replace the folder's earlier export by the new files; `moves` are (from, path below)."""
    earlier = read_manifest(folder) or {}
    new = {file["path"] for file in manifest["files"]}
    old = [file["path"] for file in earlier.get("files", [])] + earlier.get("replaced", [])
    old = [path for path in old if path not in new]
    (folder / SUCCESS).unlink(missing_ok=True)
    _write(folder, {**manifest, "state": "committing", "replaced": old})
    for path in old:
        (folder / path).unlink(missing_ok=True)
        _prune(folder, (folder / path).parent)
    for source, path in moves:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        source.rename(folder / path)
    for below in {(folder / path).parent for path in new}:
        _sync(below)
    _write(folder, {**manifest, "state": "complete"})
    (folder / SUCCESS).touch()
    _sync(folder)


def _prune(folder: Path, emptied: Path) -> None:
    """Remove folders that hold nothing any more, up to the export's own."""
    while emptied != folder and emptied.is_dir() and not any(emptied.iterdir()):
        emptied.rmdir()
        emptied = emptied.parent


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    temporary = folder / f"{TEMPORARY}{MANIFEST}"
    with temporary.open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / MANIFEST)
    _sync(folder)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
