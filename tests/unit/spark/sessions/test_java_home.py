"""Finding a Java, and the script that spares it an argument it cannot take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aerobee.spark.errors import JavaMissing
from aerobee.spark.sessions import java_home
from aerobee.spark.sessions.java_home import find_java_home, java_version, wrap_java
from aerobee.spark.sessions.scripts import write_script


def fake_java(home: Path, version: str) -> Path:
    """A `java` that reports a version, and prints its arguments otherwise."""
    text = f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2026-01-01' >&2; exit; fi
for argument do echo "$argument"; done
"""
    write_script(home / "bin" / "java", text)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_home, "_bundled_java", lambda: None)
    return monkeypatch


@pytest.mark.parametrize(
    ("reported", "version"), [("17.0.9", 17), ("1.8.0_392", 8), ("25", 25), ("what", None)]
)
def test_versions_are_read_in_both_spellings(
    tmp_path: Path, reported: str, version: int | None
) -> None:
    """Java 8 still called itself 1.8."""
    assert java_version(fake_java(tmp_path, reported) / "bin" / "java") == version


def test_java_home_comes_before_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's word counts first; one that is too old is passed over."""
    new, newer = fake_java(tmp_path / "a", "17.0.1"), fake_java(tmp_path / "b", "21.0.1")
    bare.setenv("PATH", f"{newer / 'bin'}:/bin:/usr/bin")
    assert find_java_home() == newer
    bare.setenv("JAVA_HOME", str(new))
    assert find_java_home() == new
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "c", "11.0.2")))
    assert find_java_home() == newer


def test_bundled_java_is_the_last_resort(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only where the machine has no Java that will do."""
    bundled = fake_java(tmp_path / "wheel", "17.0.9")
    bare.setattr(java_home, "_bundled_java", lambda: bundled / "bin" / "java")
    assert find_java_home() == bundled


def test_missing_java_says_what_was_looked_at(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And how to get one."""
    with pytest.raises(JavaMissing, match=r"neither JAVA_HOME nor PATH.*aerobee\[spark,jdk\]"):
        find_java_home()
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME's java is .*/java, version 11"):
        find_java_home()


def test_launcher_drops_one_argument_and_keeps_the_rest(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Blanks, quotes and empty arguments included, from a folder with a quote in its name."""
    java = fake_java(tmp_path / "it's here", "17.0.9") / "bin" / "java"
    launcher = wrap_java(java) / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "'\"$x"]
    done = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "", "'\"$x"]
    assert wrap_java(java) == launcher.parent.parent
