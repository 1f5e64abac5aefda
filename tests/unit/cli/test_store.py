"""`aerobee store` from the command line: what it says, and how it ends."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.disks import stores
from support.disks.stores import Stored, StoreWriter

from aerobee.cli import main
from aerobee.storage.snapshots.taking import SnapshotTaker


def run(*words: str, code: int = 0) -> Result:
    """Run a command, which has to end with `code`."""
    result = CliRunner().invoke(main.main, ["store", *words])
    assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}"
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose log lies elsewhere."""
    monkeypatch.setattr(stores, "QUEUE_FILE_ENTRIES", 1000)
    writer = StoreWriter(tmp_path / "store", segment_bytes=64 << 10)
    for number in range(8):
        writer.append(Stored(body=bytes([number + 1]) * 12_000))
    root = writer.close()
    (root / "config").mkdir()
    (root / "commitlog").rename(tmp_path / "log")
    return root


def test_there_and_back(folder: Path, tmp_path: Path) -> None:
    """The log that lay elsewhere is in the store that comes back."""
    snapshot, back = str(tmp_path / "snapshot"), tmp_path / "back"
    log = tmp_path / "log"
    made = run("snapshot", str(folder), snapshot, "--commit-log", str(log))
    assert made.stdout.startswith(f"{snapshot}: 3 files of {folder.resolve()}, taken ")
    assert made.stdout.endswith("at rest\n")
    assert "; sound" in run("check", snapshot).stdout
    run("restore", snapshot, str(back))
    for path in log.iterdir():
        assert (back / "commitlog" / path.name).read_bytes() == path.read_bytes()


def test_what_cannot_be_is_code_2_and_what_failed_is_1(folder: Path, tmp_path: Path) -> None:
    """With the file's name, and in one line."""
    snapshot, log = tmp_path / "snapshot", str(tmp_path / "log")
    run("snapshot", str(folder), str(snapshot), "--commit-log", log)
    taken = run("snapshot", str(folder), str(snapshot), "--commit-log", log, code=2)
    assert "is a snapshot already" in taken.stderr
    run("restore", str(snapshot), str(folder), code=2)
    run("snapshot", str(tmp_path / "absent"), str(tmp_path / "other"), code=2)
    victim = next((snapshot / "store" / "commitlog").iterdir())
    victim.write_bytes(b"\1" + victim.read_bytes()[1:])
    for words in (("check", str(snapshot)), ("restore", str(snapshot), str(tmp_path / "back"))):
        refused = run(*words, code=1)
        assert refused.stderr.startswith("error: ")
        assert victim.name in refused.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: the same snapshot again goes on"),
        (OSError(28, "No space left on device", "/backup"), 1, "/backup: No space left on device;"),
    ],
)
def test_an_interruption_says_what_to_do(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    """Ctrl-C, and a disk that is full."""

    def fails(_: SnapshotTaker) -> None:
        raise error

    monkeypatch.setattr(SnapshotTaker, "run", fails)
    assert said in run("snapshot", str(folder), str(tmp_path / "snapshot"), code=code).stderr
