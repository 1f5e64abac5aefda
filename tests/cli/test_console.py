"""`aerobee console` as an operator meets it: a process, one line, exit codes, no secret."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from click.testing import CliRunner

from aerobee.cli import main

SERVES = re.compile(r"console serves on (\S+)\n")
AEROBEE = str(Path(sys.executable).with_name("aerobee"))
TIMEOUT_S = 60


def test_a_console_says_one_line_and_stops_on_a_signal() -> None:
    """It serves without a nameserver, too: it shows what is missing."""
    command = [AEROBEE, "console", "--console-port", "0", "-n", "127.0.0.1:1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            said = SERVES.fullmatch(child.stdout.readline())
            assert said
            with urlopen(f"{said[1]}healthz", timeout=TIMEOUT_S) as reply:
                assert reply.read() == b"ok\n"
            with urlopen(said[1], timeout=TIMEOUT_S) as reply:
                assert "127.0.0.1:1" in reply.read().decode()
            child.send_signal(signal.SIGTERM)
            assert child.wait(TIMEOUT_S) == 0
        finally:
            child.kill()


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    """With the code of what was tried and failed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [AEROBEE, "console", "--console-port", port],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 1 and port in done.stderr and "Traceback" not in done.stderr


def test_settings_are_shown_without_secrets() -> None:
    """Neither the password nor the credentials."""
    credentials = '{"accessKey":"ann","secretKey":"a secret"}'
    options = ["--console-password", "correct horse", "--console-credentials", credentials]
    shown = CliRunner().invoke(main.main, ["console", "-p", *options])
    assert shown.exit_code == 0 and "consolePort=8082" in shown.output
    assert "correct horse" not in shown.output and "a secret" not in shown.output
    wrong = CliRunner().invoke(main.main, ["console", "--console-credentials", "ann"])
    assert wrong.exit_code == 2 and "accessKey" in wrong.output
