"""`make setup` in a checkout that was set up before: compiled code is as new as its sources."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.runs.source_tree import ROOT

FILES = (
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-build.lock",
    "deploy/build_hook.py",
    "deploy/server/pyproject.toml",
    "deploy/built_of.sh",
    "deploy/make_venv.sh",
    "client/compiled/lane.pyx",
    "client/compiled/lane_ring.pxi",
    "storage/compiled/index_slices.pyx",
)
PYTHON = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/../../calls"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy what setting up looks at; its Python notes what it was asked for, and does nothing."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for mark in ("remoting/py.typed", "client/compiled/lane.cpython-311.so"):
        link = tmp_path / (f".dev/aerobee/{mark}" if mark.startswith("remoting") else mark)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.touch()
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def steps(tree: Path) -> tuple[int, int]:
    """Set up; return how many times packages were installed, and how many times it was built."""
    calls = tree / "calls"
    calls.write_text("")
    environment = {key: each for key, each in os.environ.items() if not key.startswith("MAKE")}
    subprocess.run(["make", "-s", "setup"], cwd=tree, env=environment, check=True, timeout=60)
    lines = calls.read_text().splitlines()
    return (
        sum("--require-hashes" in line for line in lines),
        sum(line.endswith("-e .") for line in lines),
    )


def test_what_is_compiled_is_built_when_its_text_changes(tree: Path) -> None:
    """And only then: a checkout that is newer, as one that was copied, is none."""
    assert steps(tree) == (2, 1)
    assert steps(tree) == (0, 0)
    for name in FILES[4:]:
        (tree / name).touch()
    assert steps(tree) == (0, 0)
    for name in ("client/compiled/lane_ring.pxi", "pyproject.toml", "deploy/build_hook.py"):
        file = tree / name
        before = file.stat()
        file.write_text(file.read_text() + "\n# changed\n")
        os.utime(file, (before.st_atime, before.st_mtime - 1_000_000))  # older than what was built
        assert steps(tree) == (0, 1), name
        assert steps(tree) == (0, 0), name


def test_a_source_more_and_a_module_less_are_changes(tree: Path) -> None:
    """Of an environment that was made before there was the one, or from which the other went."""
    steps(tree)
    (tree / "broker/compiled").mkdir(parents=True)
    (tree / "broker/compiled/plain_sends.pyx").write_text("# new")
    assert steps(tree) == (0, 1)
    (tree / "client/compiled/lane.cpython-311.so").unlink()
    assert steps(tree) == (0, 1)
    assert steps(tree) == (0, 0)


def test_an_environment_of_before_is_built_once(tree: Path) -> None:
    """One that only says that it was ready, whatever was compiled then."""
    (tree / ".venv/.ready").touch()
    assert steps(tree) == (2, 1)
    assert steps(tree) == (0, 0)


def test_other_versions_are_installed_without_a_build(tree: Path) -> None:
    """The lock files say which packages there are, and nothing of our code."""
    steps(tree)
    later = (tree / "requirements.lock").stat().st_mtime + 1_000_000
    os.utime(tree / "requirements.lock", (later, later))
    assert steps(tree)[0] == 2
    assert steps(tree)[1] == 0
