"""What `deploy/systemd` says to systemd lets the servers do what they promise."""

import shlex
from pathlib import Path, PurePosixPath

import pytest
from support.runs.source_tree import ROOT

from aerobee.cli import broker_start, namesrv_start

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMMANDS = {"broker": broker_start.start, "namesrv": namesrv_start.start}


def entries(unit: Path) -> dict[str, str]:
    """Return the lines of a unit that set something once."""
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line]
    return {key: value for key, _, value in lines if not key.startswith("#")}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_server_may_write_every_file_that_its_command_names(unit: Path, tmp_path: Path) -> None:
    """The settings' file, too: settings that are changed over the network are kept there."""
    found = entries(unit)
    assert found["ProtectSystem"] == "strict", "the rest of the system is read-only"
    program, verb, *options = shlex.split(found["ExecStart"])
    writable = [PurePosixPath("/var/lib") / found["StateDirectory"]]
    writable += [
        PurePosixPath(path.lstrip("-")) for path in found.get("ReadWritePaths", "").split()
    ]
    for option in options:
        if option.startswith("/"):
            path = PurePosixPath(option)
            assert any(path.is_relative_to(folder) for folder in writable), path
    assert verb == "start"
    (tmp_path / "broker.conf").touch()
    here = [
        str(tmp_path / PurePosixPath(option).name) if option.endswith(".conf") else option
        for option in options
    ]
    COMMANDS[PurePosixPath(program).name].make_context("start", here)
