"""mqbroker, mqnamesrv and mqshutdown, as scripts call them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from aerobee.cli.rocketmq.shutdown import is_server, running


def script(
    name: str, *words: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run what a console script of the package runs."""
    return subprocess.run(
        [sys.executable, "-m", "aerobee.cli.rocketmq", name, *words],
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which python3 is this interpreter."""
    kept = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | (more or {})


def test_settings_are_printed(tmp_path: Path) -> None:
    """All with -p, the main ones with -m; -n wins over the file, the file over NAMESRV_ADDR."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=from-file\nnamesrvAddr=file:1\n")
    every = script("mqbroker", "-c", str(file), "-p", "-n", "option:1")
    assert every.returncode == 0, every.stderr
    lines = every.stdout.splitlines()
    assert {"brokerName=from-file", "namesrvAddr=option:1"} <= set(lines)
    main = script("mqbroker", "-c", str(file), "-m", env={"NAMESRV_ADDR": "env:1"})
    assert {"brokerName=from-file", "namesrvAddr=file:1"} <= set(main.stdout.splitlines())
    assert len(main.stdout.splitlines()) < len(lines) / 3
    bare = script("mqbroker", "-m", env={"NAMESRV_ADDR": "env:1", "JAVA_OPT_EXT": "-Xmx1g"})
    assert "namesrvAddr=env:1" in bare.stdout.splitlines()
    assert bare.stderr == "warning: there is no JVM here: JAVA_OPT_EXT ignored\n"
    names = script("mqnamesrv", "-m", "-n", "x:1")
    assert "listenPort=9876" in names.stdout.splitlines()
    wrong = script("mqbroker", "-c", str(tmp_path / "none.conf"), "-m")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        (["python3", "-m", "aerobee.cli.rocketmq", "mqbroker", "-c", "x"], "broker", True),
        (["/venv/bin/python3", "/venv/bin/aerobee", "broker", "start"], "broker", True),
        (["/venv/bin/python3", "/venv/bin/broker", "start", "-n", "x:1"], "broker", True),
        (["/venv/bin/python3.11", "/venv/bin/mqbroker", "-c", "x"], "broker", True),
        (["tail", "-f", "mqbroker"], "broker", False),
        (["python", "-m", "aerobee.namesrv"], "namesrv", True),
        (["python", "-m", "aerobee.namesrv"], "broker", False),
        (["vim", "broker", "notes"], "broker", False),
        (["/venv/bin/python3", "/venv/bin/aerobee", "broker", "list"], "broker", False),
        (["python3", "-m", "aerobee.cli.rocketmq", "mqshutdown", "broker"], "broker", False),
    ],
)
def test_servers_are_known_by_their_command_lines(
    words: Sequence[str], kind: str, expected: bool
) -> None:
    """However they were started; what only mentions them is left alone."""
    assert is_server(words, kind) is expected


def test_a_server_is_found(tmp_path: Path) -> None:
    """A nameserver that runs by the script; it is ended here, and not by a sweep of the machine."""
    file = tmp_path / "namesrv.conf"
    file.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "aerobee.cli.rocketmq", "mqnamesrv", "-c", str(file)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert "namesrv" in child.stdout.readline()
        assert child.pid in running("namesrv")
        assert child.pid not in running("broker")
    finally:
        child.terminate()
        assert child.wait(20) == 0


def test_a_shutdown_without_a_server() -> None:
    """It says so; a word that is none gets the usage."""
    assert script("mqshutdown", "proxy").returncode == 2
