"""What the pages of docs/ tell to type can be typed, and their programs run."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.runs.source_tree import ROOT
from support.runs.walkthrough import TIMEOUT_S, blocks, lines_that_are_typed

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.cli.main import broker, main, namesrv
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.testing import ClusterThread

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PROGRAMS = {"aerobee": main, "broker": broker, "namesrv": namesrv}
_TYPED = re.compile(r"`((?:aerobee|broker|namesrv) [^`]+)`")


def commands(page: Path) -> Iterator[str]:
    """Yield what a page has of our commands, in its blocks and in its sentences."""
    yield from lines_that_are_typed(page)
    yield from (" ".join(found.split()) for found in _TYPED.findall(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_exist(page: Path) -> None:
    """Each word and each option of a line is one of the command line's."""
    for line in commands(page):
        words = shlex.split(re.split(r" [|>#] ", line)[0], comments=True)
        if words[0] in PROGRAMS:
            parse(PROGRAMS[words[0]], words, line)


def parse(command: click.Command, words: list[str], line: str) -> None:
    """Read a line as the command line does, without doing it."""
    parent: click.Context | None = None
    while isinstance(command, click.Group):
        parent = click.Context(command, info_name=words.pop(0), parent=parent)
        found = command.get_command(parent, words[0]) if words else None
        assert found is not None, line
        command = found
    try:
        command.make_context(words[0], words[1:], parent)
    except click.MissingParameter as error:
        assert not words[1:], f"{line}: {error}"  # a sentence may name a command by its words alone
    except click.BadParameter as error:
        is_file = error.param is not None and isinstance(error.param.type, click.Path | click.File)
        assert is_file, f"{line}: {error.message}"  # the page's files are not there
    except click.UsageError as error:
        pytest.fail(f"{line}: {error.message}")
    except click.exceptions.Exit:
        pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_of_a_page_exist(page: Path) -> None:
    """A key with a value is one of a server, or one of RocketMQ's."""
    known = {*BrokerSettings.keys().values(), *NamesrvSettings.keys().values()}
    text = page.read_text()
    lines = "\n".join(re.findall(r"^```ini\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    named = set(re.findall(r"^([\w.]+)=", lines, re.MULTILINE))
    named |= set(re.findall(r"`([a-z]+[A-Z]\w*)=[^`]*`", text))
    secrets = {f"{key}File" for key in known}
    assert named <= known | secrets | set(BrokerSettings.promises) | {"useTLS"}


def test_the_first_program_runs() -> None:
    """It is short, and it is what a newcomer pastes first."""
    (program,) = (block.text for block in blocks(DOCS / "index.md") if block.kind == "python")
    with ClusterThread() as cluster:
        code = program.replace("127.0.0.1:9876", cluster.namesrv_addr)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"


def test_the_test_that_is_shown_passes(tmp_path: Path) -> None:
    """As it stands there, with the fixture that the package brings."""
    page = blocks(DOCS / "how_to/run_it_in_tests.md")
    (program,) = (block.text for block in page if block.kind == "python")
    name = program.partition("\n")[0].removeprefix("# ")
    (tmp_path / name).write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name], cwd=tmp_path,
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
