"""`aerobee export` as a shell sees it: lines in a pipe, exit codes, one clear error."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.lake.exports import grown

from aerobee.cli import main
from aerobee.spark.lake.lake import Lake
from aerobee.spark.offsets import BrokerQueue

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
    dry = run(*wanted, "--dry-run")
    assert dry.returncode == 0 and not target.exists()
    assert [line.split("\t")[:2] for line in dry.stdout.splitlines()] == [
        ["topic", "queue"],
        *(["payments", f"store:{number}"] for number in range(3)),
    ]
    done = run(*wanted)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no log line of Spark's reaches the user"
    head, line = (line.split("\t") for line in done.stdout.splitlines())
    assert head == ["topic", "messages", "days", "files", "bytes", "first", "last"]
    assert line[0] == "payments" and 100 < int(line[1]) < 200
    assert line[5] >= "2025-10-10T00:00:00Z"
    files = sorted(target.rglob("*.parquet"))
    assert len(files) == int(line[3])
    counted = sum(int(line.split("\t")[4]) for line in dry.stdout.splitlines()[1:])
    assert f"would read {counted} messages of 3 queues" in dry.stderr
    assert counted == int(line[1])
    again = run(*wanted)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith(f"error: {target} already holds an export of {store}")
    more = run(*wanted, "--incremental")
    assert (more.returncode, more.stdout) == (0, "")
    assert more.stderr == f"nothing new: {target} has all messages up to now\n"
    assert sorted(target.rglob("*.parquet")) == files


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--since", "yesterday"], 2, "'yesterday': write 2026-11-21"),
        (["--format", "json", "--compression", "snappy"], 2, "not one of gzip, zstd, none"),
        (["--incremental", "--overwrite"], 2, "choose"),
        (["--file-bytes", "many"], 2, "'many': write bytes, or a number with k, m or g"),
        (["--since", "2026-01-02", "--until", "2026-01-01"], 2, "--until is not after --since"),
        ([], 1, "error: option path: {store} is no RocketMQ store"),
    ],
)
def test_wrong_calls_end_with_a_clear_error(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    """Before any Java is looked for."""
    words = ["export", "--store", str(tmp_path), "--to", str(tmp_path / "lake"), *arguments]
    done = CliRunner().invoke(main.main, words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message.format(store=tmp_path) in done.stderr
    assert not (tmp_path / "lake").exists()


def test_lost_messages_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    """What was deleted before it was exported: told by queue, and noted if the user says so."""
    store, lake = grown(tmp_path / "store", 0), tmp_path / "lake"
    wanted = ["--store", str(store), "--to", str(lake), "--incremental"]
    assert run(*wanted).returncode == 0
    log = Lake(lake).log
    first = log.last()
    assert first is not None
    key = BrokerQueue("store", "orders", 0)
    staged = log.folder / "manifest-0000000002.json"
    staged.write_bytes(replace(first, version=2, offsets={key: 7}).encode())
    grown(store, 1)
    done = run(*wanted)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: 1 queues are not the ones that were exported before: ")
    dry = run(*wanted, "--no-fail-on-data-loss", "--dry-run")
    assert dry.returncode == 0
    assert "changed: orders store:0 from 0 on: the store has other messages" in dry.stderr
