"""`aerobee export` as a shell sees it: lines in a pipe, exit codes, one clear error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """One call of the command, its output in a pipe."""
    command = [sys.executable, "-c", "from aerobee.cli.main import main; main()", "export"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=110, check=False
    )


def test_export_prints_lines_and_refuses_to_run_twice(store: Path, tmp_path: Path) -> None:
    """Tab-separated per topic; the second call ends with 2 and leaves the first one's files."""
    target = tmp_path / "lake"
    wanted = ["--store", str(store), "--to", str(target), "--topic", "payments"]
    wanted += ["--since", "2025-10-10"]
    done = run(*wanted)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no log line of Spark's reaches the user"
    head, line = (line.split("\t") for line in done.stdout.splitlines())
    assert head == ["topic", "messages", "days", "files", "bytes", "first", "last"]
    assert line[0] == "payments" and 100 < int(line[1]) < 200
    assert line[5] >= "2025-10-10T00:00:00Z"
    files = sorted(target.rglob("*.parquet"))
    assert len(files) == int(line[3])
    again = run(*wanted)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith(f"error: {target} already holds an export of {store}")
    assert sorted(target.rglob("*.parquet")) == files


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--since", "yesterday"], 2, "'yesterday': write 2026-11-21"),
        (["--since", "2026-01-02", "--until", "2026-01-01"], 2, "--until is not after --since"),
        ([], 1, "error: option path: {store} is no RocketMQ store"),
    ],
)
def test_wrong_calls_end_with_a_clear_error(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    """Before any Java is looked for."""
    done = run("--store", tmp_path, "--to", tmp_path / "lake", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message.format(store=tmp_path) in done.stderr
    assert not (tmp_path / "lake").exists()
