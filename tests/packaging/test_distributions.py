"""The wheels and the sdists hold every module, and nothing that should not travel."""

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
from support.runs.partial_install import link_packages, required
from support.runs.source_tree import (
    PACKAGE,
    ROOT,
    client_packages,
    committed_files,
    name,
    packages,
    project,
    server_packages,
    server_project,
)

from aerobee.remoting.config.built import BUILD_FILE
from aerobee.remoting.extras import SERVER
from aerobee.testing import ClusterThread

BUILD_WHEELS = runpy.run_path(str(ROOT / "deploy" / "build_wheels.py"))

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
PROJECTS = {"aerobee": ROOT, "aerobee_server": ROOT / "deploy" / "server"}
FOLDERS = {"aerobee": client_packages(), "aerobee_server": server_packages()}
COMPILED = {
    "aerobee": ("client.compiled.lane", "client.compiled.records"),
    "aerobee_server": (
        "broker.compiled.plain_sends",
        "broker.compiled.record_runs",
        "spark.compiled.record_loops",
        "storage.compiled.index_slices",
    ),
}
both = pytest.mark.parametrize("distribution", PROJECTS)


def compiled_files(distribution: str) -> dict[str, str]:
    """Return the compiled modules of a distribution, and their files."""
    return {
        f"aerobee.{each}": f"aerobee/{each.replace('.', '/')}{SUFFIX}"
        for each in COMPILED[distribution]
    }


def build(out: Path, tree: Path, *options: str, **environment: str) -> str:
    """Build from the tree without a network; return what was printed."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
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
    """Build sdists from the tree and wheels from those; to optimise their code takes long."""
    out = tmp_path_factory.mktemp("dist")
    compiler = tmp_path_factory.mktemp("compiler") / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0 -g0\n')
    compiler.chmod(0o755)
    for tree in PROJECTS.values():
        build(out, tree, CC=str(compiler))
    return out


def wheel_of(folder: Path, distribution: str) -> Path:
    """Return the one wheel of a distribution."""
    (wheel,) = folder.glob(f"{distribution}-*.whl")
    return wheel


def wheel_files(wheel: Path) -> set[str]:
    """Name what a wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        return {file for file in archive.namelist() if ".dist-info/" not in file}


def build_note(wheel: Path) -> dict[str, object]:
    """Return what a wheel says of how it was built."""
    told: dict[str, object] = json.loads(metadata_file(wheel, BUILD_FILE))
    return told


def metadata_file(wheel: Path, file: str) -> str:
    """Return a text of a wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{wheel.name.split('-')[0]}-{version()}.dist-info/{file}").decode()


def packaged_files(folders: tuple[str, ...]) -> set[str]:
    """Name every committed file below some of the packaged folders."""
    return {name(path) for path in committed_files() if name(path).split("/")[0] in folders}


def installed_files(distribution: str) -> set[str]:
    """Name every file of a wheel but the compiled ones, whose sources are in the sdist alone."""
    files = packaged_files(FOLDERS[distribution])
    files = {file for file in files if not file.endswith((".pyx", ".pxi"))}
    if distribution == "aerobee":
        files |= {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    return {f"aerobee/{file}" for file in files}


@both
def test_the_wheel_holds_every_module(built: Path, distribution: str) -> None:
    """Each file of its folders is installed below `aerobee/`, and no other file is."""
    wheel = wheel_of(built, distribution)
    assert wheel_files(wheel) - {*compiled_files(distribution).values()} == (
        installed_files(distribution)
    )
    assert "Apache License" in metadata_file(wheel, "licenses/LICENSE")


def test_commands_and_fixtures_come_with_the_client(built: Path) -> None:
    """Who has only that is told by them what to install."""
    entries = metadata_file(wheel_of(built, "aerobee"), "entry_points.txt")
    assert "[pytest11]" in entries
    assert "aerobee = aerobee.cli.entry:aerobee" in entries


def test_no_file_is_of_both_distributions() -> None:
    """Whichever is removed leaves the other whole, and all folders are of one."""
    assert sorted(client_packages() + server_packages()) == sorted(packages())
    assert not installed_files("aerobee") & installed_files("aerobee_server")
    tables = [each["tool"]["cibuildwheel"] for each in (project(), server_project())]
    assert tables[0] == tables[1] | {"test-command": tables[0]["test-command"]}
    assert project()["build-system"] == server_project()["build-system"]


@both
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_wheel_holds_compiled_code_that_works(
    built: Path, tmp_path: Path, distribution: str
) -> None:
    """With a compiler the wheel is made for this platform, and its module can be imported."""
    wheel = wheel_of(built, distribution)
    assert not wheel.name.endswith("none-any.whl")
    files = compiled_files(distribution)
    assert build_note(wheel) == {"compiled": list(files), "why": ""}
    for each in PROJECTS:
        with zipfile.ZipFile(wheel_of(built, each)) as archive:
            archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *files],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [str(tmp_path / file) for file in files.values()], (
        done.stderr
    )


LOADED = """
import importlib, sys
for each in sys.argv[1:]:
    print(importlib.import_module(each).__file__)
"""


@pytest.mark.parametrize(
    ("distribution", "environment", "reason", "why"),
    [
        (
            "aerobee",
            {"CC": "/nowhere/cc"},
            "not compiled, Python does the same",
            "no compiler found when it",
        ),
        (
            "aerobee_server",
            {"AEROBEE_COMPILE": "0"},
            "",
            "AEROBEE_COMPILE=0 was set when it was built",
        ),
    ],
)
def test_a_wheel_without_compiled_code_is_for_any_platform(
    tmp_path: Path, distribution: str, environment: dict[str, str], reason: str, why: str
) -> None:
    """Without a compiler that works, or where it is not wanted, everything is there in Python."""
    assert reason in build(tmp_path, PROJECTS[distribution], "--wheel", **environment)
    wheel = wheel_of(tmp_path, distribution)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel_files(wheel) == installed_files(distribution)
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
CLIENT_BYTES_MAX = 10_000_000  # with the bytecode that pip makes of it


def test_the_client_alone_talks_to_a_broker(built: Path, tmp_path: Path) -> None:
    """The wheel in an empty environment: two packages beside it, under 10 MB, and it works."""
    wheel = wheel_of(built, "aerobee")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([*pip, "install", "--quiet", wheel], check=True, env=environment)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    ours = [*site.iterdir()]
    names = {folder.name.partition("-")[0] for folder in ours if folder.suffix == ".dist-info"}
    assert names == {"aerobee", "isal", "msgspec"}
    files = [file for folder in ours for file in folder.rglob("*") if file.is_file()]
    assert any(file.suffix == ".pyc" for file in files)
    assert sum(file.stat().st_size for file in files) < CLIENT_BYTES_MAX
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


INSTALLED = """
from importlib.metadata import distributions
print(*sorted(each.name for each in distributions() if each.name.startswith("aerobee")))
"""
STARTS = ["-m", "aerobee", "broker", "start", "--help"]


def test_extras_bring_the_server_of_the_same_release(built: Path, tmp_path: Path) -> None:
    """`pip install`, of nothing but the two wheels and the packages that they name."""
    others = tmp_path / "others"
    others.mkdir()
    link_packages(others, (required("all") | required()) - {SERVER})
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(f"{others}\n")
    python = venv / "bin" / "python"

    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.stdout + done.stderr

    def install(what: str) -> str:
        """Install it without an index; return what there is of ours then."""
        said = run(*pip, "install", "-q", "--no-compile", "--no-index", "--find-links", built, what)
        assert not said, said
        return run(python, "-I", "-c", INSTALLED).strip()

    assert install("aerobee") == "aerobee"
    assert run(python, "-I", "-m", "aerobee", "--version").startswith(f"aerobee {version()} (")
    assert "needs aerobee[broker]: pip install 'aerobee[broker]'" in run(python, "-I", *STARTS)
    assert install("aerobee[broker]") == "aerobee aerobee-server"
    assert "--listen-port" in run(python, "-I", *STARTS)
    assert install("aerobee[all]") == "aerobee aerobee-server"
    assert "No broken requirements" in run(*pip, "check")


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
    wheel = wheel_of(built, "aerobee")
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
    with zipfile.ZipFile(wheel_of(built, "aerobee")) as archive:
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


def sdist_files(folder: Path, distribution: str) -> set[str]:
    """Name what a source distribution holds, below its folder."""
    with tarfile.open(folder / f"{distribution}-{version()}.tar.gz") as archive:
        return {file.partition("/")[2] for file in archive.getnames()}


def test_the_sdist_holds_the_project(built: Path) -> None:
    """Whoever has the sdist has the source, the tests and the documents."""
    names = sdist_files(built, "aerobee")
    assert packaged_files(packages()) <= names
    assert {
        "README.md",
        "LICENSE",
        "Makefile",
        "requirements.lock",
        "deploy/build_hook.py",
        "deploy/server/pyproject.toml",
    } <= names
    assert any(file.startswith("tests/") for file in names)
    assert not any(file.startswith((".venv/", ".dev/", "build/")) for file in names)


def test_the_servers_sdist_holds_its_folders(built: Path) -> None:
    """And what it is built with, at the places where the tree has it."""
    names = sdist_files(built, "aerobee_server")
    folders = {file for file in names if "/" in file} - {"deploy/build_hook.py"}
    assert folders == packaged_files(server_packages()) | {"remoting/message/check_sum.pxi"}
    beside = {file for file in names if "/" not in file and not file.startswith(".")}
    assert beside == {"LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}


def version() -> str:
    """Return the version that the distributions carry."""
    return str(project()["project"]["version"])
