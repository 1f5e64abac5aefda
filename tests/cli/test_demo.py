"""`aerobee demo`, smaller than life: the same story, the same balance, Spark's count included."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from aerobee.cli import main

TIMEOUT_S = 200


@pytest.mark.spark
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_demonstration_balances(tmp_path: Path) -> None:
    """Nothing is lost, Spark counts what was sent, files are kept, and nobody needs pytest."""
    code = "import sys; sys.modules['pytest'] = None; from aerobee.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--messages", "3000", "--dir", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    values = dict(re.findall(r"^(\S.*?) {2,}(\S+(?: \S+)*)$", done.stdout, re.MULTILINE))
    assert values["sent"] == values["consumed"] == "3,000"
    assert values["lost"] == "0"
    assert int(values["delivered more than once"].replace(",", "")) < 3000
    assert values["committed and rolled back, seen"] == "1 and 0"
    assert values["sent 2 times for a lost answer, stored"] == "1 time"
    assert int(re.findall(r"came after +(\d+) ms", done.stdout)[0]) >= 700
    for event in (
        "two consumers share",
        "consumer-3 joins",
        "consumer-1 leaves",
        "a transaction",
        "a message",
        "the answer",
    ):
        assert f"-- {event}" in done.stdout
    counted = re.findall(r"^  Demo\w+ +([\d,]+)$", done.stdout, re.MULTILINE)
    assert counted == ["1,500", "1,500"]
    assert list(Path(values["Parquet files"]).rglob("*.parquet"))
    assert (Path(values["the broker's store"]) / "commitlog").is_dir()


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    """An older log in the folder would be counted, too."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main.main, ["demo", "--dir", str(tmp_path), "--no-spark"])
    assert result.exit_code == 2
    wanted = "name a folder that does not exist, or is empty"
    assert result.stderr == f"error: {tmp_path} is not empty: {wanted}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demonstration_that_is_ended_stops_its_servers(
    number: signal.Signals, tmp_path: Path
) -> None:
    """As Ctrl-C does: what it leaves is a store that was closed, not one that crashed."""
    root = tmp_path / "demo"
    with subprocess.Popen(
        [
            *(sys.executable, "-c", "from aerobee.cli.main import main; main()", "demo"),
            *("--messages", "10000000", "--no-spark", "--dir", str(root)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        store = root / "broker-a"
        for _ in range(1000):
            if list(store.glob("commitlog/*")) or child.poll() is not None:
                break
            time.sleep(0.02)
        assert (store / "abort").exists()
        child.send_signal(number)
        child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert not (store / "abort").exists()
