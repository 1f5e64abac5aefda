"""The frame of the commands: laziness, one line per error, exit codes."""

import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from aerobee.cli import main
from aerobee.cli.program import Failure, Lazy, Program, option_name
from aerobee.remoting.config.built import build
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.errors import AerobeeError


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("listenPort", "listen-port"),
        ("brokerIP1", "broker-ip1"),
        ("tls.server.certPath", "tls-server-cert-path"),
        ("store_path", "store-path"),
        ("listen-port", "listen-port"),
        ("printConfigItem", "print-config-item"),
    ],
)
def test_option_names(key: str, option: str) -> None:
    """Settings keys of any spelling have one spelling as an option."""
    assert option_name(key) == option


def program_that(work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Build a program whose one command does `work`."""
    command = click.Command("work", callback=work)
    monkeypatch.setattr(sys.modules[__name__], "command", command, raising=False)
    return Program({"work": Lazy(__name__, "command", "does it")}, name="program")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (AerobeeError("the store is locked"), 1, "error: the store is locked\n"),
        (SettingsError("one\ntwo"), 2, "error: one\nerror: two\n"),
        (OSError(98, "Address already in use"), 1, "error: Address already in use\n"),
        (FileNotFoundError(2, "No such file", "/x"), 1, "error: /x: No such file\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            1,
            f"error: /x: Permission denied for user {os.geteuid()}:"
            + " give it the right to, or run this as the owner\n",
        ),
        (Failure("no"), 1, "error: no\n"),
    ],
)
def test_expected_errors_are_a_line_and_an_exit_code(
    error: Exception, code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could be foreseen is told without a traceback, on stderr."""

    def work() -> None:
        raise error

    result = CliRunner().invoke(program_that(work, monkeypatch), ["work"])
    assert result.exit_code == code
    assert result.stderr == text
    assert result.stdout == ""


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is not dressed up as one that was."""

    def work() -> None:
        raise KeyError("bug")

    result = CliRunner().invoke(program_that(work, monkeypatch), ["work"])
    assert isinstance(result.exception, KeyError)


def test_every_command_loads_and_explains_itself() -> None:
    """Each command of each program exists and has help with examples where it takes options."""
    runner = CliRunner()
    for program in (main.main, main.broker, main.namesrv):
        for name in program.list_commands(click.Context(program)):
            result = runner.invoke(program, [name, "--help"])
            assert result.exit_code == 0, result.output
            assert "Usage:" in result.stdout


def test_a_wrong_command_is_a_usage_error() -> None:
    """The shell sees 2, the user which commands there are."""
    result = CliRunner().invoke(main.main, ["nonsense"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_help_loads_no_library() -> None:
    """`aerobee --help` and the start of a server wait for no library that they do not use."""
    code = (
        "import sys; from aerobee.cli.main import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'rich', 'aiohttp', 'pydantic', 'numpy', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    """The installed version is printed, with how it was built, by all three programs."""
    for program in (main.main, main.broker, main.namesrv):
        result = CliRunner().invoke(program, ["--version"])
        assert result.stdout == f"{program.name} {build()}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_serves_all_three_programs(shell: str) -> None:
    """One script completes aerobee, broker and namesrv."""
    result = CliRunner().invoke(main.main, ["completion", shell])
    assert result.exit_code == 0
    for variable in ("_AEROBEE_COMPLETE", "_BROKER_COMPLETE", "_NAMESRV_COMPLETE"):
        assert variable in result.stdout
