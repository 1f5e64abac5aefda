"""Builds the peer programs once into `.cache/interop`, outside git, with the tools of the machine.

A tool that is missing is an error that says which one; `AEROBEE_INTEROP_WITHOUT=go,node` names the
peers that a machine knowingly does without, and only their tests are then skipped.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PROJECT: Final = Path(__file__).resolve().parents[3]
PEERS: Final = PROJECT / "tests" / "interop" / "peers"
OPTIONAL_VARIABLE: Final = "AEROBEE_INTEROP_OPTIONAL"
WITHOUT_VARIABLE: Final = "AEROBEE_INTEROP_WITHOUT"
BUILD_SECONDS_MAX: Final = 600
START_SECONDS_MAX: Final = 60
_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_CPP_WHEEL: Final = "rocketmq==0.4.4"
_HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
PLAYWRIGHT: Final = "playwright==1.65.2"
_AXE: Final = "axe-core@4.14.1"
_AXE_SHA256: Final = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_BROWSER: Final = "chromium-headless-shell"
_FONTS: Final = "fonts-inter"


class ToolMissing(Exception):
    """A compiler or runtime that a peer needs is not on the path."""


class BuildFailed(Exception):
    """A peer program could not be built; the text ends with what the tool printed."""


def cache_dir() -> Path:
    """Where everything that is downloaded or compiled goes; `AEROBEE_CACHE` moves it."""
    base = Path(os.environ.get("AEROBEE_CACHE", PROJECT / ".cache"))
    directory = base / "interop"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def given_up() -> frozenset[str]:
    """The peers that this machine is told to do without."""
    return _words(WITHOUT_VARIABLE)


def optional() -> frozenset[str]:
    """The tools that this machine may lack: what needs them and nothing else is then left out."""
    return _words(OPTIONAL_VARIABLE)


def _words(variable: str) -> frozenset[str]:
    words = os.environ.get(variable, "").split(",")
    return frozenset(word.strip() for word in words if word.strip())


def tool(name: str) -> str:
    """Return the path of a tool or say what to install."""
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(
            f"`{name}` is not on the path: install it, or leave what needs it out knowingly with"
            f" {WITHOUT_VARIABLE}=java,go,cpp,node,prometheus,systemd,linters,helm,image,chromium"
            " (any of them)"
        )
    return found


def classpath(name: str) -> str:
    """Return the class path of `peers/java/NAME/pom.xml`, downloaded by Maven on first use."""
    pom = PEERS / "java" / name / "pom.xml"
    target = cache_dir() / f"{name}.classpath"
    with stamped(target, [pom]) as stale:
        if stale:
            goal = f"{_DEPENDENCY_PLUGIN}:build-classpath"
            run([tool("mvn"), "-q", "-B", "-f", str(pom), goal, f"-Dmdep.outputFile={target}"])
    text = target.read_text().strip()
    if not all(Path(jar).exists() for jar in text.split(os.pathsep)):
        target.unlink()  # the local Maven repository was cleaned since
        return classpath(name)
    return text


def java_classes(client: str) -> Path:
    """Compile the Java peer against one client version and return the directory of its classes.

    `Peer.java` and what it needs is written for every version; what lies in `CLIENT/` is compiled
    for that version alone.
    """
    common = sorted((PEERS / "java").glob("*.java"))
    own = sorted((PEERS / "java" / client).glob("*.java"))
    target = cache_dir() / f"{client}.classes"
    with stamped(target, [*common, *own]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            sources = [str(source) for source in [*common, *own]]
            command = [tool("javac"), "-nowarn", "-encoding", "UTF-8", "-cp", classpath(client)]
            run([*command, "-d", str(target), *sources])
    return target


def prometheus(name: str) -> str:
    """Return the path of `prometheus` or `promtool`: as installed, or from Debian's package."""
    if (found := shutil.which(name)) is not None:
        return found
    return str(debian_files("prometheus", "prometheus") / "usr" / "bin" / name)


def debian_files(name: str, *packages: str) -> Path:
    """Unpack packages of Debian's beside the system, as the folder `name`, and return it."""
    target = cache_dir() / name
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            _unpack(target, *packages)
    return target


def python_packages(name: str, *requirements: str) -> Path:
    """Install pinned packages with what they need as the folder `name`; return it, for the path."""
    target = cache_dir() / name
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "-q"]
            run([*pip, "--target", str(target), *requirements])
    return target


def helm() -> str:
    """Build Helm once and return its path."""
    target = cache_dir() / "helm"
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            environment = {**os.environ, "GOBIN": str(target), "GOFLAGS": "-mod=mod"}
            of_its_time = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=33"  # else of 2020
            run([tool("go"), "install", "-ldflags", of_its_time, _HELM], environment=environment)
    return str(target / "helm")


def _unpack(target: Path, *packages: str) -> None:
    run([tool("apt-get"), "-q", "download", *packages], target)
    for package in target.glob("*.deb"):
        run([tool("dpkg-deb"), "-x", str(package), str(target)])
        package.unlink()


class Chromium(NamedTuple):
    """A browser's program, and what it needs in its environment."""

    program: str
    environment: dict[str, str]


@cache
def chromium() -> Chromium:
    """Return Debian's Chromium: as installed, or unpacked from its packages and those it needs."""
    for name in ("chromium", _BROWSER):
        if (found := shutil.which(name)) is not None:
            return Chromium(found, {})
    target = cache_dir() / "chromium"
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            _unpack(target, *_missing_packages())
            fonts = target / "fonts.conf"
            fonts.write_text(
                f"<fontconfig><dir>{target / 'usr/share/fonts'}</dir>"
                "<include ignore_missing='yes'>/etc/fonts/fonts.conf</include></fontconfig>"
            )
    libraries = sorted({str(path.parent) for path in target.glob("usr/lib/*-linux-gnu/**/*.so*")})
    environment = {
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "FONTCONFIG_FILE": str(target / "fonts.conf"),
    }
    browser = Chromium(str(target / "usr/lib/chromium" / _BROWSER), environment)
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
    expect_work([browser.program, *words], {"LANG": "C.UTF-8", **environment})
    return browser


def expect_work(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    """Raise ToolMissing where this machine does not let a tool do what it is there for."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace",
            timeout=START_SECONDS_MAX, check=False,
        )  # fmt: skip
        said = f"{done.returncode} {done.stderr[-1000:]}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said:
        raise ToolMissing(f"`{command[0]}` does not work on this machine: {said}")


def _missing_packages() -> list[str]:
    """Name what Debian would install for the browser and the pages' first font."""
    command = ["-s", "--no-install-recommends", "install", _BROWSER, _FONTS]
    try:
        said = run([tool("apt-get"), *command])
    except BuildFailed:  # the lists of packages may never have been fetched
        run([tool("apt-get"), "-q", "update"])
        said = run([tool("apt-get"), *command])
    return [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]


def axe_script() -> str:
    """Return axe-core, which finds what keeps people from using a page."""
    target = cache_dir() / "axe"
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            run([tool("npm"), "pack", "--silent", _AXE], target)
            (packed,) = target.glob("*.tgz")
            run([tool("tar"), "-xzf", str(packed), "package/axe.min.js"], target)
            packed.unlink()
    script = (target / "package" / "axe.min.js").read_bytes()
    if hashlib.sha256(script).hexdigest() != _AXE_SHA256:
        raise BuildFailed(f"{_AXE} is not what it was")
    return script.decode()


def go_program() -> Path:
    """Build the Go peer and return its executable."""
    sources = [
        *sorted((PEERS / "go").glob("*.go")),
        PEERS / "go" / "go.mod",
        PEERS / "go" / "go.sum",
    ]
    target = cache_dir() / "go-peer"
    with stamped(target, sources) as stale:
        if stale:
            run([tool("go"), "build", "-o", str(target), "."], PEERS / "go")
    return target


def cpp_packages() -> Path:
    """Install the wheel that carries librocketmq and return the directory to put on PYTHONPATH."""
    target = cache_dir() / "cpp_python"
    with stamped(target, [Path(__file__)]) as stale:
        if stale:
            shutil.rmtree(target, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
            run([*pip, "--target", str(target), _CPP_WHEEL])
    return target


def node_program() -> Path:
    """Install the Node peer beside its locked packages and return its script."""
    sources = [PEERS / "node" / name for name in ("peer.js", "package.json", "package-lock.json")]
    target = cache_dir() / "node"
    with stamped(target, sources) as stale:
        if stale:
            tool("node")
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            for source in sources:
                shutil.copy(source, target)
            run([tool("npm"), "ci", "--no-audit", "--no-fund", "--loglevel=error"], target)
    return target / "peer.js"


@contextmanager
def stamped(target: Path, sources: Iterable[Path]) -> Iterator[bool]:
    """Yield whether `target` has to be made again; one process at a time makes it."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    stamp = target.with_name(target.name + ".stamp")
    with target.with_name(target.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = not (target.exists() and stamp.exists() and stamp.read_text() == digest)
        yield stale
        stamp.write_text(digest)


def run(
    command: list[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailed(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        )
    return done.stdout
