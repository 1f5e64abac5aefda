"""The wheel and the sdist hold every module, and nothing that should not travel."""

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.runs.source_tree import ROOT, committed_files, name, packages, project

from aerobee.remoting.config.built import BUILD_FILE

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
COMPILED = {
    "aerobee.broker.compiled.plain_sends": f"aerobee/broker/compiled/plain_sends{SUFFIX}",
    "aerobee.broker.compiled.record_runs": f"aerobee/broker/compiled/record_runs{SUFFIX}",
    "aerobee.spark.compiled.record_loops": f"aerobee/spark/compiled/record_loops{SUFFIX}",
    "aerobee.storage.compiled.index_slices": f"aerobee/storage/compiled/index_slices{SUFFIX}",
}


def build(out: Path, *options: str, **environment: str) -> str:
    """Build from the tree without a network; return what was printed."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist from the tree and a wheel from that sdist; to optimise its code takes long."""
    out = tmp_path_factory.mktemp("dist")
    compiler = tmp_path_factory.mktemp("compiler") / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(0o755)
    build(out, CC=str(compiler))
    return out


def wheel_files(folder: Path) -> set[str]:
    """Name what a wheel installs."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {file for file in archive.namelist() if ".dist-info/" not in file}


def build_note(wheel: Path) -> dict[str, object]:
    """Return what a wheel says of how it was built."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"aerobee-{version()}.dist-info/{BUILD_FILE}")
    told: dict[str, object] = json.loads(text)
    return told


def packaged_files() -> set[str]:
    """Name every committed file below the packaged folders."""
    return {name(path) for path in committed_files() if name(path).split("/")[0] in packages()}


def test_the_wheel_holds_every_module(built: Path) -> None:
    """Each file of the folders is installed below `aerobee/`, and no other file is."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.read(f"aerobee-{version()}.dist-info/entry_points.txt").decode()
    assert wheel_files(built) - {*COMPILED.values()} == {
        f"aerobee/{file}" for file in packaged_files()
    }
    assert "[pytest11]" in entries
    assert "aerobee = aerobee.cli.entry:aerobee" in entries


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_wheel_holds_compiled_code_that_works(built: Path, tmp_path: Path) -> None:
    """With a compiler the wheel is made for this platform, and its module can be imported."""
    (wheel,) = built.glob("*.whl")
    assert not wheel.name.endswith("none-any.whl")
    assert build_note(wheel) == {"compiled": list(COMPILED), "why": ""}
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for module, file in COMPILED.items():
        done = subprocess.run(
            [sys.executable, "-c", f"import {module} as found; print(found.__file__)"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == str(tmp_path / file), done.stderr


@pytest.mark.parametrize(
    ("environment", "reason", "why"),
    [
        ({"CC": "/nowhere/cc"}, "not compiled, Python does the same", "no compiler found when it"),
        ({"AEROBEE_COMPILE": "0"}, "", "AEROBEE_COMPILE=0 was set when it was built"),
    ],
)
def test_a_wheel_without_compiled_code_is_for_any_platform(
    tmp_path: Path, environment: dict[str, str], reason: str, why: str
) -> None:
    """Without a compiler that works, or where it is not wanted, everything is there in Python."""
    assert reason in build(tmp_path, "--wheel", **environment)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel_files(tmp_path) == {f"aerobee/{file}" for file in packaged_files()}
    told = build_note(wheel)
    assert told["compiled"] == [] and str(told["why"]).startswith(why)


def test_the_sdist_holds_the_project(built: Path) -> None:
    """Whoever has the sdist has the source, the tests and the documents."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {file.partition("/")[2] for file in archive.getnames()}
    assert packaged_files() <= names
    assert {
        "README.md",
        "LICENSE",
        "Makefile",
        "requirements.lock",
        "deploy/build_hook.py",
    } <= names
    assert any(file.startswith("tests/") for file in names)
    assert not any(file.startswith((".venv/", ".dev/", "build/")) for file in names)


def version() -> str:
    """Return the version that the distributions carry."""
    return str(project()["project"]["version"])
