"""Table files are written aside, and never keep the loop waiting."""

import asyncio
import os
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.broker.tables import table_file as json_files
from aerobee.broker.tables.table_file import TableFile
from aerobee.remoting.config.kept_files import replace_file


def as_number(data: bytes) -> int:
    """Decode a file that holds one number."""
    return int(data)


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

    def full(path: Path, data: bytes, *, private: bool) -> None:
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

    def slow(path: Path, data: bytes, *, private: bool) -> None:
        loop.call_soon_threadsafe(begun.set)
        written.append(data)
        replace_file(path, data, private=private)

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
