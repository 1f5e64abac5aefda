"""Table files survive a crash at any step, and never keep the loop waiting."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.broker import json_files
from aerobee.broker.json_files import TableFile, TableFileDamaged, load_json_file, replace_file


def as_number(data: bytes) -> int:
    """Decode a file that holds one number."""
    return int(data)


class Killed(BaseException):
    """Stands for the end of the process."""


def killed_at(step: int) -> Callable[[Path, Path], Path]:
    """Return a rename that ends the process before its `step`-th call."""
    rename, calls = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Killed
        return rename(self, target)

    return replace


@pytest.mark.parametrize(("step", "found"), [(1, 1), (2, 1), (3, 2)])
def test_a_crash_at_each_step_leaves_a_readable_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, found: int
) -> None:
    """Before the renames and between them the old table is read, after them the new one."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed_at(step))
        if step <= 2:
            with pytest.raises(Killed):
                replace_file(file, b"2")
        else:
            replace_file(file, b"2")
    assert load_json_file(file, as_number) == found


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\0", b"{", None])
def test_the_backup_is_read_where_the_file_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    """Empty, zeroed, torn and missing files are passed over."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")
    replace_file(file, b"2")
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    assert load_json_file(file, as_number) == 1


def test_two_damaged_files_are_an_error_that_names_both(tmp_path: Path) -> None:
    """An empty table in their place would forget for good what they still may hold."""
    file = tmp_path / "table.json"
    file.write_bytes(b"x")
    (tmp_path / "table.json.bak").write_bytes(b"y")
    with pytest.raises(TableFileDamaged) as damaged:
        load_json_file(file, as_number)
    assert "table.json:" in str(damaged.value) and "table.json.bak:" in str(damaged.value)
    assert load_json_file(tmp_path / "other.json", as_number) is None


async def test_flush_returns_when_its_change_is_on_disk(tmp_path: Path) -> None:
    """Many changes at once share few writes, and none returns before its own is written."""
    state = 0
    writes = 0

    def encode() -> bytes:
        nonlocal writes
        writes += 1
        return b"%d" % state

    table = TableFile(tmp_path / "table.json", encode)

    async def change() -> None:
        nonlocal state
        state += 1
        mine = state
        table.mark()
        await table.flush()
        assert as_number(table.path.read_bytes()) >= mine

    await asyncio.gather(*(change() for _ in range(50)))
    assert as_number(table.path.read_bytes()) == 50
    assert writes <= 3
    await table.flush()
    assert writes <= 3 and not table.dirty


async def test_a_failed_write_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table stays dirty, the caller learns why."""
    table = TableFile(tmp_path / "table.json", lambda: b"7")
    table.mark()

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(json_files, "replace_file", full)
        with pytest.raises(OSError, match="No space"):
            await table.flush()
    assert table.dirty
    table.flush_now()
    assert table.path.read_bytes() == b"7"


async def test_a_cancelled_flush_cannot_overwrite_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that a cancelled flush leaves behind finishes before, or not at all."""
    state = b"1"
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    written: list[bytes] = []

    def slow(path: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(begun.set)
        written.append(data)
        replace_file(path, data)

    monkeypatch.setattr(json_files, "replace_file", slow)
    table = TableFile(tmp_path / "table.json", lambda: state)
    table.mark()
    flushing = asyncio.create_task(table.flush())
    await begun.wait()
    flushing.cancel()
    state = b"2"
    table.mark()
    table.flush_now()
    await until(lambda: flushing.done(), what="the cancelled flush")
    assert table.path.read_bytes() == b"2"
    assert written[-1] == b"2"
