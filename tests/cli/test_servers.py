"""`broker start` and `namesrv start` as an operator meets them: processes, lines, exit codes."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from aerobee.cli import main

SERVES = re.compile(r"broker broker-a serves on 127\.0\.0\.1:(\d+) \(store (.+)\)\n")
TIMEOUT_S = 30


def script(name: str) -> str:
    """Return the path of an installed console script."""
    return str(Path(sys.executable).with_name(name))


def broker_start(store: Path, *options: str) -> "subprocess.Popen[str]":
    """Start a broker on a free port, its errors apart from its output."""
    return subprocess.Popen(
        [
            script("broker"),
            "start",
            *("--listen-port", "0", "--http-port", "off", "--broker-ip1", "127.0.0.1"),
            *("--store-path-root-dir", str(store), *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def error_lines(errors: str) -> list[str]:
    """Return what is no line of the log: the words to the operator."""
    return [line for line in errors.splitlines() if " INFO " not in line]


@pytest.fixture
def broker(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """Give a starting broker, killed at the end if the test has not stopped it."""
    child = broker_start(tmp_path / "store")
    yield child
    child.kill()
    child.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_broker_says_one_line_and_stops_on_a_signal(
    number: signal.Signals, broker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """The line names the address and the store; after a clean stop the mark of a crash is gone."""
    assert broker.stdout is not None
    serves = SERVES.fullmatch(broker.stdout.readline())
    assert serves is not None
    assert serves[2] == str(tmp_path / "store")
    with socket.create_connection(("127.0.0.1", int(serves[1])), timeout=5):
        assert (tmp_path / "store" / "abort").exists()
    broker.send_signal(number)
    output, errors = broker.communicate(timeout=TIMEOUT_S)
    assert (output, broker.returncode) == ("", 0), errors
    assert not (tmp_path / "store" / "abort").exists()
    lines = dict(line.split(maxsplit=5)[4:] for line in errors.splitlines())
    assert "version=" in lines["broker_starts"] and "httpPort='-1'" in lines["broker_starts"]
    assert "listens=0.0.0.0:" in lines["broker_serves"] and "broker_is_open" in lines
    assert lines["stop_asked"] == f"signal={number.name}"
    assert "clean=true unsaved=nothing" in lines["broker_stopped"]


def test_a_stop_that_hangs_is_told_and_cut_short_by_a_third_signal(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C again hears why it takes so long, and has the last word."""
    code = (
        "import asyncio, logging; from aerobee.remoting.net import process\n"
        "logging.basicConfig(level='INFO')\n"
        "class Slow:\n"
        "    async def start(self): pass\n"
        "    async def stop(self): await asyncio.sleep(60)\n"
        "process.run(process.serve(Slow(), lambda: 'serves'))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "serves\n"
        for word in ("stop_asked", "stop_under_way", "stop_cut_short"):
            child.send_signal(signal.SIGTERM)
            assert word in child.stderr.readline()
        assert child.wait(TIMEOUT_S) == 128 + signal.SIGTERM


def test_a_server_s_process_searches_seldom_for_garbage() -> None:
    """What a start has made stays, and what is served leaves nothing for the collector."""
    code = (
        "import gc; from aerobee.remoting.net import process\n"
        "class Any:\n"
        "    async def start(self): pass\n"
        "process.run(process.serve(\n"
        "    Any(), lambda: f'{gc.get_freeze_count() > 1000} {gc.get_threshold()[0]}'))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "True 50000\n"
        child.kill()


def test_signals_that_ask_for_no_stop_end_no_broker(
    broker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """`kill -3`, by which operators of a JVM look at its threads, shows them here, too."""
    assert broker.stdout is not None and broker.stderr is not None
    assert SERVES.fullmatch(broker.stdout.readline())
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        broker.send_signal(number)
        sign = "most recent call first" if number is signal.SIGQUIT else f"signal={number.name}"
        line = " INFO "
        while line and sign not in line:
            line = broker.stderr.readline()
        assert sign in line, f"it ended by {number.name}"
    broker.send_signal(signal.SIGTERM)
    _, errors = broker.communicate(timeout=TIMEOUT_S)
    assert broker.returncode == 0, errors
    assert not (tmp_path / "store" / "abort").exists()


def test_signals_that_come_while_the_last_step_runs_spoil_no_clean_stop() -> None:
    """Closing a store holds the loop: what came meanwhile is seen when nothing is left to cut."""
    code = (
        "import os, signal, time; from aerobee.remoting.net import process\n"
        "class Held:\n"
        "    async def start(self): os.kill(os.getpid(), signal.SIGTERM)\n"
        "    async def stop(self):\n"
        "        for _ in range(2):\n"
        "            os.kill(os.getpid(), signal.SIGHUP)\n"
        "            time.sleep(0.01)\n"
        "process.run(process.serve(Held(), lambda: 'serves'))\n"
    )
    for _ in range(3):
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
        )
        assert (child.returncode, child.stdout) == (0, "serves\n"), child.stderr


def test_a_second_broker_on_the_store_is_told_so(
    broker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """One clear error, exit code 1, and the first broker goes on."""
    assert broker.stdout is not None
    broker.stdout.readline()
    second = broker_start(tmp_path / "store")
    output, errors = second.communicate(timeout=TIMEOUT_S)
    assert second.returncode == 1
    assert output == ""
    (error,) = error_lines(errors)
    assert str(tmp_path / "store") in error
    assert broker.poll() is None


def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    """The operator reads which address is taken, without a traceback."""
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        child = broker_start(tmp_path / "store", "--listen-port", str(port))
        _, errors = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == 1
    (error,) = error_lines(errors)
    assert re.fullmatch(rf"error: .*{port}.*[Aa]ddress already in use", error)


def test_namesrv_and_broker_from_files_and_options(tmp_path: Path) -> None:
    """`namesrv start -c FILE` and `broker start -c FILE -n HOST:PORT`, as with RocketMQ."""
    (tmp_path / "namesrv.conf").write_text(
        f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n"
    )
    namesrv = subprocess.Popen(
        [script("namesrv"), "start", "-c", str(tmp_path / "namesrv.conf")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert namesrv.stdout is not None
        line = namesrv.stdout.readline()
        address = re.fullmatch(r"namesrv serves on (127\.0\.0\.1:\d+)\n", line)
        assert address is not None, line
        (tmp_path / "broker.conf").write_text("brokerName=broker-x\nflushDiskType = SYNC_FLUSH\n")
        options = ("-c", str(tmp_path / "broker.conf"), "-n", address[1])
        child = broker_start(tmp_path / "store", *options)
        assert child.stdout is not None
        assert child.stdout.readline().startswith("broker broker-x serves on 127.0.0.1:")
        child.terminate()
        child.communicate(timeout=TIMEOUT_S)
        assert child.returncode == 0
    finally:
        namesrv.terminate()
        assert namesrv.wait(TIMEOUT_S) == 0
        assert namesrv.stdout is not None
        namesrv.stdout.close()


def test_settings_are_printed_without_starting(tmp_path: Path) -> None:
    """`-p` shows what a start would use, in the form of a file, file and options merged."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=from-file\nlistenPort=1234\n")
    result = CliRunner().invoke(
        main.main, ["broker", "start", "-c", str(file), "-p", "--listenPort", "4321"]
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert {"brokerName=from-file", "listenPort=4321", "autoCreateTopicEnable=true"} <= set(lines)


def test_printed_settings_hide_passwords(tmp_path: Path) -> None:
    """What `-p` prints ends in tickets and chats."""
    file = tmp_path / "broker.conf"
    file.write_text("tls.server.keyPassword=geheim\n")
    result = CliRunner().invoke(main.broker, ["start", "-p", "-c", str(file)])
    assert "geheim" not in result.stdout
    assert "tls.server.keyPassword=******" in result.stdout.splitlines()


@pytest.mark.parametrize("program", ["broker", "namesrv"])
def test_wrong_settings_end_with_two(program: str) -> None:
    """The shell can tell wrong settings from a failed start."""
    result = CliRunner().invoke(main.main, [program, "start", "--listen-port", "many"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: listenPort cannot be 'many' (option): allowed: a whole number from 0 to 65535\n"
    )


def test_an_unknown_key_is_a_warning_on_stderr(tmp_path: Path) -> None:
    """Output stays clean for programs that read it."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerNam=b\n")
    result = CliRunner().invoke(main.broker, ["start", "-p", "-c", str(file)])
    assert result.exit_code == 0
    assert "did you mean brokerName?" in result.stderr
    assert "warning" not in result.stdout


def test_a_start_is_quick(tmp_path: Path) -> None:
    """Nothing slow crept into the start: it takes less than 0.8 s of CPU, however busy we are."""
    seconds = []
    for attempt in range(3):
        child = broker_start(tmp_path / f"store-{attempt}")
        assert child.stdout is not None
        assert child.stdout.readline().startswith("broker ")
        times = psutil.Process(child.pid).cpu_times()
        seconds.append(times.user + times.system)
        child.terminate()
        child.communicate(timeout=TIMEOUT_S)
    print("seconds of CPU to serving:", [f"{each:.2f}" for each in seconds])
    assert min(seconds) < 0.8  # about 0.35 on a quiet machine; the benchmarks measure the clock
