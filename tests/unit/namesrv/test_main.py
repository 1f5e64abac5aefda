"""The nameserver as a process."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aerobee.namesrv.settings import NamesrvSettings


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start one."""
    return subprocess.Popen(
        [sys.executable, "-m", "aerobee.namesrv", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_says_where_it_serves_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """One line to its caller, in the log what runs and how it ended; exit code 0."""
    config = tmp_path / "namesrv.conf"
    config.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n")
    with start("-c", str(config)) as process:
        assert process.stdout is not None
        assert re.fullmatch(r"namesrv serves on 127\.0\.0\.1:\d+\n", process.stdout.readline())
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
    assert (out, process.returncode) == ("", 0)
    events = [line.split()[4] for line in errors.splitlines()]
    assert events == ["namesrv_starts", "namesrv_serves", "stop_asked", "namesrv_stopped"]
    assert " INFO " in errors and "version=" in errors and f"kvConfigPath='{tmp_path}" in errors
    assert f"signal={number.name}" in errors


def test_a_nameserver_that_is_open_to_everybody_says_so(tmp_path: Path) -> None:
    """The line that names 127.0.0.1 is where to dial; the log says who else can."""
    config = tmp_path / "namesrv.conf"
    config.write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\n")
    with start("-c", str(config)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert " WARNING " in errors and "namesrv_is_open listens=0.0.0.0:" in errors


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    """A damaged KV file stops the start with a text that says what to do."""
    (tmp_path / "kv.json").write_text("{")
    config = tmp_path / "namesrv.conf"
    config.write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\nlistnPort=1\n")
    with start("-c", str(config)) as process:
        out, errors = process.communicate(timeout=20)
    warning, starts, error = errors.splitlines()
    assert "namesrv_starts" in starts
    assert "listnPort" in warning
    assert "listenPort" in warning
    assert error.startswith("error: cannot read")
    assert "remove both" in error
    assert (out, process.returncode) == ("", 1)


def test_a_misspelt_key_is_told_beside_the_error_it_caused(tmp_path: Path) -> None:
    """One attempt shows all that is wrong with the settings, each line marked."""
    config = tmp_path / "namesrv.conf"
    config.write_text("listnPort=9876\nlistenPort=x\nkvConfigPath=\n")
    with start("-c", str(config)) as process:
        out, errors = process.communicate(timeout=20)
    assert (out, process.returncode) == ("", 1)
    lines = errors.splitlines()
    assert len(lines) == 3 and all(line.startswith("error: ") for line in lines)
    for words in ("listenPort cannot be 'x'", "kvConfigPath cannot be ''", "unknown key listnPort"):
        assert words in errors


def test_rocketmqs_keys_are_read(tmp_path: Path) -> None:
    """A namesrv.conf of RocketMQ works as it is."""
    config = tmp_path / "namesrv.conf"
    config.write_text(
        "rocketmqHome=/opt/rocketmq\nlistenPort=19876\norderMessageEnable=true\n"
        "scanNotActiveBrokerInterval=1000\nserverWorkerThreads=8\nkvConfigPath=/tmp/kv.json\n"
        "tls.server.mode=disabled\n"
    )
    settings, warnings = NamesrvSettings.load(config, {}, {})
    assert settings.listen_port == 19876
    assert settings.order_message_enable
    assert settings.scan_interval_ms == 1000
    assert settings.kv_config_path == Path("/tmp/kv.json")
    assert settings.tls_server_mode == "disabled"
    assert all("rocketmqHome" in each or "serverWorkerThreads" in each for each in warnings)
