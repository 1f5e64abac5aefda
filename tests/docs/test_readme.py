"""What the README tells a newcomer to type works as it stands there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.runs.source_tree import ROOT, committed_files, name

from aerobee.testing import ClusterThread

TIMEOUT_S = 200
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Give a home folder with a broker's store in it, and the nameserver's address."""
    folder = tmp_path_factory.mktemp("home")
    with ClusterThread(root=folder) as cluster:
        (folder / "store").symlink_to(cluster.store_path())
        yield folder, cluster.namesrv_addr


def run_block(code: str, home: tuple[Path, str]) -> str:
    """Run one example in a process of its own against the cluster; return what it prints."""
    folder, namesrv = home
    assert BLOCKS, "the README has examples"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("127.0.0.1:9876", namesrv)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=folder,
        env=os.environ | {"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serve_block(code: str, home: tuple[Path, str]) -> str:
    """Run an example that serves until it is told to end; return the first line it prints."""
    folder, namesrv = home
    program = [sys.executable, "-c", code.replace("127.0.0.1:9876", namesrv)]
    environment = os.environ | {"HOME": str(folder)}
    with subprocess.Popen(program, stdout=-1, text=True, cwd=folder, env=environment) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.terminate()
    assert child.returncode == 0
    return line


@pytest.mark.timeout(4 * TIMEOUT_S)
def test_the_examples_run_in_their_order(home: tuple[Path, str]) -> None:
    """The first message, the service that handles it, and the query that finds it."""
    hello, service, query = BLOCKS
    printed = run_block(hello, home)
    assert "stored in queue" in printed
    assert "got hello with tag en" in printed
    assert "hello" in serve_block(service, home)
    table = run_block(query, home)
    assert re.search(r"\|\s*greetings\s*\|\s*en\s*\|\s*1\s*\|", table)
    assert re.search(r"\|\s*hello\s*\|", table)


def test_every_link_between_documents_leads_somewhere() -> None:
    """A document that moves takes its links along."""
    broken = [
        f"{name(path)}: {target}"
        for path in committed_files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert not broken


def test_every_make_target_of_the_readme_exists() -> None:
    """The commands of the README are those of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    named = {word for words in re.findall(r"`make ([a-z -]+)`", README) for word in words.split()}
    assert named >= {"test", "lint", "types", "interop", "bench", "bench-peer", "soak"}
    assert not [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
