"""Helper scripts: in a folder of the user's own, written once, never half."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aerobee.spark.sessions.local import prepare_environment, python_script
from aerobee.spark.sessions.scripts import cache_dir, write_script


def test_cache_follows_the_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CACHE_HOME, and a temporary folder where the home cannot be used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "aerobee"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    fallback = cache_dir()
    assert fallback.is_dir() and fallback.stat().st_uid == os.getuid()


def test_script_is_replaced_only_when_it_differs(tmp_path: Path) -> None:
    """A running shell may be reading it."""
    path = write_script(tmp_path / "bin" / "x", "#!/bin/sh\necho 1\n")
    first = path.stat().st_ino
    write_script(path, "#!/bin/sh\necho 1\n")
    assert path.stat().st_ino == first
    write_script(path, "#!/bin/sh\necho 2\n")
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"2\n"
    assert [each.name for each in path.parent.iterdir()] == ["x"]


def test_workers_python_leaves_out_only_the_zipped_pyspark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The user's own PYTHONPATH stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shell = write_script(tmp_path / "python", '#!/bin/sh\necho "${PYTHONPATH-none}|$1"\n')
    script = python_script(shell)
    zipped = "/x/pyspark/python/lib/pyspark.zip:/x/lib/py4j-0.10.9.9-src.zip"
    for given, kept in ((f"{zipped}:/my libs:/b", "/my libs:/b"), (zipped, "none")):
        monkeypatch.setenv("PYTHONPATH", given)
        done = subprocess.run([script, "a b"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{kept}|a b\n"


def test_every_python_of_a_session_is_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers', and the one by which Java looks for data sources; a user's own stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    prepare_environment()
    workers, driver = (os.environ[f"PYSPARK_{each}PYTHON"] for each in ("", "DRIVER_"))
    assert workers == driver
    assert "-m aerobee.spark.sessions.python_daemon" in Path(workers).read_text()
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/mine")
    prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/mine"


@pytest.mark.parametrize(("given", "found"), [(None, "10000"), ("0", "0")])
def test_workers_keep_freed_memory_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, found: str
) -> None:
    """Unless the user has said how long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MIMALLOC_PURGE_DELAY", raising=False)
    if given is not None:
        monkeypatch.setenv("MIMALLOC_PURGE_DELAY", given)
    shell = write_script(tmp_path / "python", '#!/bin/sh\necho "$MIMALLOC_PURGE_DELAY"\n')
    done = subprocess.run([python_script(shell)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{found}\n"
