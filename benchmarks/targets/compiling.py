"""Builds the programs that the benchmarks run, once for each state of their sources."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.interop import toolchain

BENCHMARKS: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = BENCHMARKS.parent
BUILD: Final = PROJECT / "build" / "benchmarks"
BUILD_SECONDS_MAX: Final = 900
_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_FLAGS: Final = ("-O2", "-std=gnu11", "-Wall", "-Wextra")


class ToolMissing(Exception):
    """A compiler or a server that a benchmark needs is not there; the text says what to install."""


class BuildFailed(Exception):
    """A program could not be built; the text is what the compiler said."""


def tool(name: str, hint: str) -> str:
    """Return the path of a program; ToolMissing with the hint where there is none."""
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"`{name}` is not on the path: {hint}")
    return found


def load_generator() -> Path:
    """Return the load generator, compiled."""
    folder = BENCHMARKS / "loadgen"
    sources = [path for path in sorted(folder.glob("*.c")) if path.name != "sync_counts.c"]
    return _compile("loadgen", sources, sorted(folder.glob("*.h")), libraries=["-lm"])


def sync_counter() -> Path:
    """Return the library that counts a server's fsyncs when it is preloaded, compiled."""
    source = BENCHMARKS / "loadgen" / "sync_counts.c"
    return _compile("sync_counts.so", [source], [], libraries=["-shared", "-fPIC", "-ldl"])


def nats_program() -> Path:
    """Return NATS's server and publisher, built from the pinned modules."""
    go = tool("go", "install Go 1.25 or later to compare with NATS JetStream")
    folder = BENCHMARKS / "nats"
    target = _cache() / "natsbench"
    sources = [folder / name for name in ("main.go", "go.mod", "go.sum")]
    return _build(target, sources, [go, "build", "-o", str(target), "."], folder)


def kafka_version() -> str:
    """Return the version that pom.xml pins."""
    text = (BENCHMARKS / "kafka" / "pom.xml").read_text()
    found = re.search(r"kafka_2.13</artifactId>\s*<version>([^<]+)", text)
    return found[1] if found else "?"


def kafka_classes() -> tuple[str, Path]:
    """Return the class path of Kafka, downloaded by Maven, and the folder of its load's classes."""
    maven = tool("mvn", "install Maven to compare with Kafka")
    javac = tool("javac", "install a JDK 17 or later to compare with Kafka")
    folder = BENCHMARKS / "kafka"
    path = _cache() / "kafka.classpath"
    goal = f"{_DEPENDENCY_PLUGIN}:build-classpath"
    pom = folder / "pom.xml"
    _build(
        path, [pom], [maven, "-q", "-B", "-f", str(pom), goal, f"-Dmdep.outputFile={path}"], folder
    )
    jars, source, classes = path.read_text().strip(), folder / "KafkaLoad.java", _cache() / "kafka"
    _build(classes, [source], [javac, "-cp", jars, "-d", str(classes), str(source)], folder)
    return jars, classes


def python_packages(name: str, pinned: Sequence[str]) -> Path:
    """Return a folder of its own with the pinned packages, to be put on PYTHONPATH."""
    target = _cache() / "python" / name
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    words = ["--no-deps", "--upgrade", "--target", str(target), *pinned]
    return _build(target, [], [*pip, *words], BENCHMARKS)


def rocketmq_load() -> str:
    """Return the class path of RocketMQ's Java client and of the load that drives it."""
    path = toolchain.classpath("client-5.5.0")
    javac = tool("javac", "install a JDK 17 or later to compare with RocketMQ's Java client")
    source = BENCHMARKS / "clients" / "programs" / "RocketMQLoad.java"
    classes = _cache() / "rocketmq"
    _build(classes, [source], [javac, "-cp", path, "-d", str(classes), str(source)], BENCHMARKS)
    return f"{path}:{classes}"


def _cache() -> Path:
    return Path(os.environ.get("AEROBEE_CACHE", PROJECT / ".cache")) / "benchmarks"


def _compile(name: str, sources: list[Path], headers: list[Path], *, libraries: list[str]) -> Path:
    compiler = tool(
        "cc", "the load generator is written in C; install gcc or clang (build-essential)"
    )
    target = BUILD / name
    command = [compiler, *_FLAGS, "-o", str(target), *map(str, sources), *libraries]
    return _build(target, [*sources, *headers], command, BENCHMARKS)


def _build(target: Path, inputs: Sequence[Path], command: list[str], folder: Path) -> Path:
    """Run `command` unless it made `target` of these inputs already."""
    digest = hashlib.sha256("\n".join(command).encode())
    for path in inputs:
        digest.update(path.read_bytes())
    stamp = target.with_name(target.name + ".stamp")
    if target.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    if made.returncode:
        raise BuildFailed(f"{' '.join(command)} ended with {made.returncode}:\n{made.stdout}")
    stamp.write_text(digest.hexdigest())
    return target
