"""Log files that are rotated."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aerobee.remoting.net.logs import log_files
from aerobee.remoting.net.logs.log_files import LogFile

BYTES: Final = 2000
FILES: Final = 3


@pytest.fixture
def log(tmp_path: Path) -> Iterator[logging.Logger]:
    """A log whose lines go to files of 2,000 bytes, three of them."""
    made = logging.getLogger("aerobee.test_log_files")
    made.propagate = False
    made.setLevel(logging.INFO)
    before = list(made.handlers)
    made.handlers[:] = [LogFile(tmp_path / "logs" / "broker.log", BYTES, FILES)]
    yield made
    made.handlers[0].close()
    made.handlers[:] = before


def text(folder: Path) -> str:
    """Return what all files have, the oldest first."""
    paths = sorted((folder / "logs").iterdir(), key=_age, reverse=True)
    return "".join(path.read_text() for path in paths)


def _age(path: Path) -> int:
    return int(path.suffix[1:]) if path.suffix[1:].isdecimal() else 0


def test_files_are_bounded_in_size_and_number(log: logging.Logger, tmp_path: Path) -> None:
    """The newest lines are there, whole and in their order; nothing else lies in the folder."""
    for number in range(1000):
        log.info("line number=%d", number)
    log.handlers[0].close()
    files = list((tmp_path / "logs").iterdir())
    assert {path.name for path in files} == {"broker.log", "broker.log.1", "broker.log.2"}
    assert all(path.stat().st_size <= BYTES for path in files)
    lines = text(tmp_path).splitlines()
    assert lines[-1].endswith("number=999")
    assert lines == [f"line number={1000 - count}" for count in range(len(lines), 0, -1)]


def test_a_folder_that_cannot_be_had_ends_the_start(tmp_path: Path) -> None:
    """A server that logs nowhere would be found out when it is too late."""
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(OSError):
        LogFile(tmp_path / "logs" / "broker.log", BYTES, FILES)


def test_a_disk_that_refuses_costs_lines_and_says_how_many(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who logs hears of it; once there is room the next line is written."""
    handler = log.handlers[0]
    assert isinstance(handler, LogFile)
    written = threading.Event()
    flush = handler._file.flush

    def refuse() -> None:
        written.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(handler._file, "flush", refuse)
    log.info("first")
    assert written.wait(10)
    log.info("second")
    while not handler._lines.empty():
        threading.Event().wait(0.001)
    monkeypatch.setattr(handler._file, "flush", flush)
    log.info("third")
    handler.close()
    lines = text(tmp_path).splitlines()
    assert lines[-2:] == ["third", "log_lines_lost count=2"]


def test_a_disk_that_does_not_answer_holds_nobody(
    log: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines wait for it, as many as there may be; the others are counted."""
    monkeypatch.setattr(log_files, "WAITING_MAX", 5)
    held, reached = threading.Event(), threading.Event()
    log.handlers[0].close()
    handler = LogFile(tmp_path / "logs" / "other.log", 100_000, FILES)
    log.handlers[:] = [handler]
    flush = handler._file.flush

    def hold() -> None:
        reached.set()
        held.wait(10)
        flush()

    monkeypatch.setattr(handler._file, "flush", hold)
    log.info("held")
    assert reached.wait(10)
    for number in range(20):
        log.info("line number=%d", number)
    held.set()
    log.handlers[0].close()
    lines = (tmp_path / "logs" / "other.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("line")] == [
        f"line number={number}" for number in range(5)
    ]
    assert "log_lines_lost count=15" in lines
