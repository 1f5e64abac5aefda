"""The examples of integrations/README.md run as they stand."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aerobee.testing import ClusterThread

ROOT = Path(__file__).parents[3]
README = ROOT / "integrations" / "README.md"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """Serve for all the examples."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as served:
        yield served


def example(heading: str, cluster: ClusterThread) -> str:
    """Return the program under a heading, with this cluster's address."""
    part = README.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    return program.replace("127.0.0.1:9876", cluster.namesrv_addr)


def run(program: str, folder: Path) -> str:
    """Run a program to its end and return what it prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_effects_happen_once(cluster: ClusterThread, tmp_path: Path) -> None:
    """An order and its message are written together; the message pays the order."""
    assert run(example("Effects that happen once", cluster), tmp_path) == "paid: True\n"
    with sqlite3.connect(tmp_path / "shop.db") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        assert {"aerobee_inbox", "aerobee_outbox"} <= set(tables)
        assert database.execute("SELECT count(*) FROM aerobee_outbox").fetchone() == (0,)
    database.close()
