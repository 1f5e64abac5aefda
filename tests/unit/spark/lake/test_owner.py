"""Whose a staging folder is: sure on this machine, a matter of a day elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from aerobee.spark.lake import owner as export_owner
from aerobee.spark.lake.owner import SILENT_S, Heartbeat, Owner, is_dead, write_owner


def owned(folder: Path, owner: Owner, age_s: float = 0.0) -> Path:
    """A folder whose owner was last heard of so long ago."""
    folder.mkdir(exist_ok=True)
    (folder / "owner.json").write_text(json.dumps(asdict(owner)))
    then = time.time() - age_s
    for path in (folder / "owner.json", folder):
        os.utime(path, (then, then))
    return folder


def test_process_of_this_machine_is_known_to_live_or_not(tmp_path: Path) -> None:
    """However long ago it was heard of; a later process with its number is another one."""
    write_owner(tmp_path)
    assert not is_dead(tmp_path)
    this = Owner.this_process()
    assert not is_dead(owned(tmp_path / "old", this, 2 * SILENT_S))
    assert is_dead(owned(tmp_path / "reused", replace(this, started="1")))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = replace(this, pid=child.pid, started=str(export_owner._started(child.pid)))
    assert not is_dead(owned(tmp_path / "child", other))
    child.communicate(b"\n")
    assert is_dead(tmp_path / "child")


@pytest.mark.parametrize(("age_s", "dead"), [(60.0, False), (SILENT_S + 60, True)])
def test_process_elsewhere_is_dead_after_a_day_of_silence(
    tmp_path: Path, age_s: float, dead: bool
) -> None:
    """Also one that ended before it could say who it is."""
    elsewhere = replace(Owner.this_process(), system="another boot")
    assert is_dead(owned(tmp_path / "run", elsewhere, age_s)) is dead
    folder = owned(tmp_path / "nameless", elsewhere, age_s)
    (folder / "owner.json").write_text("")
    then = time.time() - age_s
    for path in (folder / "owner.json", folder):
        os.utime(path, (then, then))
    assert is_dead(folder) is dead
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nameless", "run"]


def test_heartbeat_keeps_a_silent_run_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a minute, however often it is asked for one."""
    elsewhere = replace(Owner.this_process(), system="another boot")
    folder = owned(tmp_path / "run", elsewhere, SILENT_S + 60)
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    heart = Heartbeat(folder)
    heart.beat()
    assert is_dead(folder)
    now += export_owner.HEARTBEAT_S
    heart.beat()
    assert not is_dead(folder)
    (folder / "owner.json").unlink()
    now += export_owner.HEARTBEAT_S
    heart.beat()
