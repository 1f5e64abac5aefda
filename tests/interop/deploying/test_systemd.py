"""The units of `deploy/systemd` as systemd itself reads them."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from support.interop import toolchain
from support.runs.source_tree import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.needs("systemd")]

UNITS: Final = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
EXPOSURE_MAX: Final = 1.5
"""systemd's own measure of what a service that was taken over could do, from 0 to 10."""


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze."""
    command = [toolchain.tool("systemd-analyze"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system that has the units and the programs that they start, and nothing else."""
    units, programs = tmp_path / "etc/systemd/system", tmp_path / "opt/aerobee/bin"
    for folder in (units, programs):
        folder.mkdir(parents=True)
    for unit in UNITS:
        shutil.copy(unit, units)
        (program,) = re.findall(r"^ExecStart=\S+/(\w+) ", unit.read_text(), re.MULTILINE)
        (programs / program).write_text("#!/bin/sh\n")
        (programs / program).chmod(0o755)
    return tmp_path


def verify(system: Path) -> str:
    """Return what systemd has against the units of a system."""
    names = [unit.name for unit in UNITS]
    done = analyze("verify", f"--root={system}", "--man=no", "--recursive-errors=no", *names)
    return done.stdout + done.stderr


def test_systemd_has_nothing_against_them(system: Path) -> None:
    """No key that it passes over, no program that is not there."""
    assert verify(system) == ""
    (unit, *_) = (system / "etc/systemd/system").glob("*.service")
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchdogSecond="))
    assert "Unknown key" in verify(system), "it would say so"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_little_is_left_to_who_takes_a_server_over(unit: Path) -> None:
    """No capability, no device, no write elsewhere, no call that no server makes."""
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX * 10:.0f}", str(unit))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None and float(found[1]) <= EXPOSURE_MAX
