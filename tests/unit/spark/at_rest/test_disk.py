"""Disks that fail while stores are read: each fault is told as what it is, or passed over if asked.

The faults are put into `disk`, through which all files of stores are read.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.spark_rows import rows

from aerobee.spark.at_rest import disk
from aerobee.spark.errors import DataLost, StoreUnreadable

MESSAGES = 40
ROOMS = ("at_rest", "feeds", "lost", "planning", "reading", "streams")
READS = re.compile(r"\bos\.(open|pread|preadv|listdir|scandir|stat|fstat)\b")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One file of records, and the queue that leads to them."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(MESSAGES):
        writer.append(Stored(body=b"%d" % number))
    return writer.close()


def failing(*_: Any) -> Any:
    """What a disk does whose sectors are gone."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_reads_in_small_parts_find_everything(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network file systems may give less than was asked for."""

    def some(fd: int, targets: list[memoryview], at: int) -> int:
        return os.preadv(fd, [target[:7] for target in targets], at)

    whole = rows(store)
    monkeypatch.setattr(disk, "read_into", some)
    assert rows(store) == whole
    assert len(whole) == MESSAGES


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize(
    ("door", "options", "told"),
    [
        ("read_into", {}, r"cannot read .*0{20} at log position \d+: Input/output error"),
        ("read", {"subscribe": "orders"}, "cannot read .*orders/0: Input/output error"),
        ("names", {}, "cannot open .*commitlog: Input/output error"),
        ("folders", {}, "cannot open .*consumequeue: Input/output error"),
        ("open_file", {}, "cannot open .*: Input/output error"),
    ],
)
def test_failing_disk_is_not_taken_for_retention(
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    door: str,
    options: dict[str, str],
    told: str,
    fail_on_data_loss: str,
) -> None:
    """What is there and cannot be read is no loss that could be left out."""
    monkeypatch.setattr(disk, door, failing)
    with pytest.raises(StoreUnreadable, match=told) as raised:
        rows(store, failOnDataLoss=fail_on_data_loss, **options)
    assert not isinstance(raised.value, DataLost)


@pytest.mark.parametrize(
    "options",
    [{"columns": "body"}, {"columns": "body, queue_offset"}, {"subscribe": "orders"}],
    ids=["bodies alone", "along the log", "by the queues"],
)
def test_file_cut_under_a_task_is_lost_data(
    store: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """Told with its place, or left out with a warning, as failOnDataLoss says."""
    monkeypatch.setattr("aerobee.spark.reading.pieces.check_reachable", _cutting(monkeypatch))
    with pytest.raises(DataLost, match="ends at log position 1000"):
        rows(store, **options)
    monkeypatch.setattr(disk, "read_into", os.preadv)
    left = rows(store, failOnDataLoss="false", **options)
    assert len(left) < MESSAGES


def _cutting(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Cut all files at byte 1000 when a task begins, the plan being made."""

    def short(fd: int, targets: list[memoryview], at: int) -> int:
        return os.preadv(fd, [target[: max(0, 1000 - at)] for target in targets], at)

    def begin(_: str) -> None:
        monkeypatch.setattr(disk, "read_into", short)

    return begin


def test_stores_are_read_through_one_door() -> None:
    """Whoever opens or lists files of stores elsewhere cannot be tested with faults."""
    root = Path(disk.__file__).parents[1]
    others = [
        str(path.relative_to(root))
        for room in ROOMS
        for path in (root / room).glob("*.py")
        if path != Path(disk.__file__) and READS.search(path.read_text())
    ]
    assert others == []
