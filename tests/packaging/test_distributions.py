"""The wheel and the sdist hold every module, and nothing that should not travel."""

import importlib.machinery
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.runs.source_tree import PACKAGE, ROOT, committed_files, name, packages, project

from aerobee.remoting.config.built import BUILD_FILE
from aerobee.testing import ClusterThread

BUILD_WHEELS = runpy.run_path(str(ROOT / "deploy" / "build_wheels.py"))

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
COMPILED = {
    "aerobee.broker.compiled.plain_sends": f"aerobee/broker/compiled/plain_sends{SUFFIX}",
    "aerobee.broker.compiled.record_runs": f"aerobee/broker/compiled/record_runs{SUFFIX}",
    "aerobee.client.compiled.lane": f"aerobee/client/compiled/lane{SUFFIX}",
    "aerobee.client.compiled.records": f"aerobee/client/compiled/records{SUFFIX}",
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


def installed_files() -> set[str]:
    """Name every file of a wheel but the compiled ones, whose sources are in the sdist alone."""
    beside = {path.name for path in PACKAGE.glob("*.py")}
    files = {file for file in packaged_files() if not file.endswith((".pyx", ".pxi"))}
    return {f"aerobee/{file}" for file in files | beside}


def test_the_wheel_holds_every_module(built: Path) -> None:
    """Each file of the folders is installed below `aerobee/`, and no other file is."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.read(f"aerobee-{version()}.dist-info/entry_points.txt").decode()
    assert wheel_files(built) - {*COMPILED.values()} == installed_files()
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
    assert wheel_files(tmp_path) == installed_files()
    told = build_note(wheel)
    assert told["compiled"] == [] and str(told["why"]).startswith(why)


HELLO = """
import asyncio, sys
from aerobee.client import ConsumeFrom, LitePullConsumer, Message, Producer
from aerobee.remoting.config.built import build

async def main(namesrv):
    async with Producer(namesrv=namesrv) as producer:
        await producer.send(Message("greetings", b"hello", tags="en"))
    consumer = LitePullConsumer("readers", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("greetings", tags="en")
    async with consumer:
        async for message in consumer:
            return message.body.decode()

print(asyncio.run(main(sys.argv[1])), build())
"""
CLIENT_BYTES_MAX = 10_000_000  # without the bytecode that pip makes of it


def test_the_client_alone_talks_to_a_broker(built: Path, tmp_path: Path) -> None:
    """The wheel in an empty environment: two packages beside it, under 10 MB, and it works."""
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([*pip, "install", "--quiet", wheel], check=True, env=environment)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    ours = [folder for folder in site.iterdir() if not folder.name.startswith(("pip", "setup"))]
    names = {folder.name.partition("-")[0] for folder in ours if folder.suffix == ".dist-info"}
    assert names == {"aerobee", "isal", "msgspec"}
    files = [file for folder in ours for file in folder.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files if file.suffix != ".pyc") < CLIENT_BYTES_MAX
    with ClusterThread() as cluster:
        done = subprocess.run(
            [python, "-I", "-W", "error", "-c", HELLO, cluster.namesrv_addr],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    kind = "compiled" if shutil.which("cc") else "pure Python"
    assert done.stdout.startswith(f"hello {version()} ({kind}"), done.stderr


def test_the_versions_that_are_named_are_those_of_the_wheels() -> None:
    """Classifiers, what may install it, and what `make wheels` builds."""
    named = [
        each.removeprefix("Programming Language :: Python :: ")
        for each in project()["project"]["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]
    assert project()["project"]["requires-python"] == f">={named[0]}"
    wheels = project()["tool"]["cibuildwheel"]["build"].split()
    assert wheels == [f"cp{each.replace('.', '')}-*" for each in named]
    assert [f"3.{minor}" for minor in BUILD_WHEELS["MINORS"]] == named


def test_a_wheel_that_cannot_be_published_is_named(built: Path, tmp_path: Path) -> None:
    """One for this machine alone; one that says what it is not."""
    (wheel,) = built.glob("*.whl")
    faults = BUILD_WHEELS["faults"]
    (fault,) = faults(wheel)
    assert "no index takes a wheel of that platform" in fault
    tagged = tmp_path / "aerobee-0-cp311-cp311-manylinux_2_17_x86_64.whl"
    shutil.copy(wheel, tagged)
    assert not list(faults(tagged))
    with zipfile.ZipFile(tagged, "a") as archive:
        archive.writestr("aerobee/client/more.cpython-311-x86_64-linux-gnu.so", b"")
    (fault,) = faults(tagged)
    assert "aerobee.client.more" in fault


def test_the_installed_package_knows_its_version(built: Path, tmp_path: Path) -> None:
    """`aerobee.__version__` and `python -m aerobee`, from a wheel and in this environment."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for path in (str(tmp_path), ""):
        for arguments, wanted in (
            (["-c", "import aerobee; print(aerobee.__version__)"], version()),
            (["-m", "aerobee", "--version"], f"aerobee {version()}"),
        ):
            done = subprocess.run(
                [sys.executable, *arguments],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path.parent,
            )
            assert re.match(rf"{re.escape(wanted)}\b", done.stdout), done.stderr


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
