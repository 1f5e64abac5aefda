"""What `deploy/systemd` says to systemd lets the servers do what they promise."""

import re
import shlex
from pathlib import Path, PurePosixPath

import pytest
from support.runs.source_tree import ROOT

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli import broker_start, namesrv_start
from aerobee.cli.program import EXIT_USAGE
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.config.secret_keys import is_secret
from aerobee.remoting.config.settings import ServerSettings

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMMANDS = {"broker": broker_start.start, "namesrv": namesrv_start.start}
SETTINGS: dict[str, type[ServerSettings]] = {"broker": BrokerSettings, "namesrv": NamesrvSettings}
units = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def entries(unit: Path) -> dict[str, str]:
    """Return the lines of a unit that set something once."""
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line]
    return {key: value for key, _, value in lines if not key.startswith("#")}


@units
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


@units
def test_credentials_are_secrets_of_the_server(unit: Path) -> None:
    """A name that is no key would be passed over, and the server be open."""
    named = re.findall(r"^LoadCredential=(\S+)$", unit.read_text(), re.MULTILINE)
    known = SETTINGS[unit.stem.removeprefix("aerobee-")].keys().values()
    assert named
    for credential in named:
        key = credential.removeprefix("aerobee.")
        assert key in known and is_secret(key), credential


@units
def test_a_unit_waits_for_a_server_that_says_when(unit: Path) -> None:
    """It is told by the main process alone; what a restart cannot mend is not tried again."""
    found = entries(unit)
    assert (found["Type"], found["NotifyAccess"]) == ("notify", "main")
    assert found["RestartPreventExitStatus"] == str(EXIT_USAGE)
    assert int(found["WatchdogSec"]) >= 60, "a disk that hangs for a while ends no server"
    assert found["WatchdogSignal"] == "SIGQUIT", "which writes where every thread is"
