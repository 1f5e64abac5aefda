"""The wheel and the sdist hold every module, and nothing that should not travel."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.source_tree import ROOT, committed_files, name, packages, project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist from the tree and a wheel from that sdist, without a network."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def packaged_files() -> set[str]:
    """Name every committed file below the packaged folders."""
    return {name(path) for path in committed_files() if name(path).split("/")[0] in packages()}


def test_the_wheel_holds_every_module(built: Path) -> None:
    """Each file of the folders is installed below `aerobee/`, and no other file is."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {file for file in archive.namelist() if ".dist-info/" not in file}
        entries = archive.read(f"aerobee-{version()}.dist-info/entry_points.txt").decode()
    assert names == {f"aerobee/{file}" for file in packaged_files()}
    assert "[pytest11]" in entries
    assert "aerobee = aerobee.cli.main:main" in entries


def test_the_sdist_holds_the_project(built: Path) -> None:
    """Whoever has the sdist has the source, the tests and the documents."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {file.partition("/")[2] for file in archive.getnames()}
    assert packaged_files() <= names
    assert {"README.md", "LICENSE", "Makefile", "requirements.lock", "deploy/dev_links.py"} <= names
    assert any(file.startswith("tests/") for file in names)
    assert not any(file.startswith((".venv/", ".dev/", "build/")) for file in names)


def version() -> str:
    """Return the version that the distributions carry."""
    return str(project()["project"]["version"])
