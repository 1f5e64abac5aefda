"""A large table's changes are a line each beside it, whatever becomes of disk and process."""

import asyncio
import errno
import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.disks.steps import Killed, Steps

from aerobee.broker.tables import changes_file
from aerobee.broker.tables.changes_file import ChangesFile
from aerobee.broker.tables.groups import GroupsChange, GroupTable
from aerobee.broker.tables.growing_file import GrowingTableFile
from aerobee.remoting.bodies import SubscriptionGroupConfig
from aerobee.remoting.config.kept_files import KeptFileDamaged
from aerobee.storage.disk.files import Files

NAME = "subscriptionGroup.json"
CHANGES = f"{NAME}.changes"
CLOCK = count(1000)


def table(folder: Path, files: Files | None = None) -> GroupTable:
    """A loaded table over some files."""
    groups = GroupTable(lambda: next(CLOCK), folder)
    path = folder / NAME
    groups.file = GrowingTableFile(path, groups, ChangesFile(path, GroupsChange, files))
    groups.file.mark()
    groups.load()
    return groups


def state(groups: GroupTable) -> dict[str, Any]:
    """All that a table keeps."""
    return dict(json.loads(groups.encode()))


def put(groups: GroupTable, name: str, retries: int) -> None:
    """Make a group, or change it."""
    groups.update(SubscriptionGroupConfig(group_name=name, retry_max_times=retries))


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables have their changes beside them, too."""
    monkeypatch.setattr(changes_file, "TABLE_BYTES_LEAST", 0)


async def changed_beside(folder: Path, files: Files | None = None) -> GroupTable:
    """A table on the disk, and some changes beside it."""
    groups = table(folder, files)
    put(groups, "before", 1)
    put(groups, "to go", 1)
    groups.forbid_reading("before", "t", forbidden=True)
    await groups.file.save()
    put(groups, "g", 7)
    await groups.file.flush()
    groups.delete("to go")
    put(groups, "before", 3)
    groups.forbid_reading("before", "t", forbidden=False)
    groups.forbid_reading("g", "u", forbidden=True)
    await groups.file.flush()
    return groups


async def test_one_more_of_many_costs_its_own_bytes(tmp_path: Path) -> None:
    """The table's file is left alone until it is saved; then it has everything, and alone."""
    files = Steps()
    groups = table(tmp_path, files)
    for number in range(2000):
        put(groups, f"g{number}", 1)
    await groups.file.flush()
    assert not files.written
    before = groups.file.path.stat()
    assert before.st_size > changes_file.TABLE_BYTES_LEAST
    for number in range(100):
        put(groups, f"more{number}", 1)
        await groups.file.flush()
    assert groups.file.path.stat().st_ino == before.st_ino
    assert files.written < 100 * 1024
    assert state(table(tmp_path)) == state(groups)
    await groups.file.save()
    assert json.loads(groups.file.path.read_bytes()) == state(groups)
    assert not (tmp_path / CHANGES).exists()


async def test_a_small_table_is_written_whole(tmp_path: Path) -> None:
    """There is nothing beside it that RocketMQ would not know of."""
    groups = await changed_beside(tmp_path)
    assert json.loads(groups.file.path.read_bytes()) == state(groups)
    assert not (tmp_path / CHANGES).exists()


async def test_changes_do_not_outgrow_the_table(tmp_path: Path, any_size: None) -> None:
    """With as many bytes as the table has they are followed by the table; a stop writes it, too."""
    groups = await changed_beside(tmp_path)
    before = groups.file.path.stat()
    for number in range(200):
        put(groups, "g", number)
        await groups.file.flush()
        size = (tmp_path / CHANGES).stat().st_size if (tmp_path / CHANGES).exists() else 0
        assert size < groups.file.path.stat().st_size + 2000
    assert groups.file.path.stat().st_ino != before.st_ino
    groups.file.flush_now()
    assert json.loads(groups.file.path.read_bytes()) == state(groups)
    assert not (tmp_path / CHANGES).exists()


async def test_a_restart_finds_changes_of_all_kinds(tmp_path: Path, any_size: None) -> None:
    """Made, changed, deleted, closed and opened groups, and the version; a save ends the file."""
    groups = await changed_beside(tmp_path)
    again = table(tmp_path)
    assert state(again) == state(groups)
    assert json.loads(again.file.path.read_bytes()) != state(groups)
    await again.file.save()
    assert json.loads(again.file.path.read_bytes()) == state(groups)
    assert not (tmp_path / CHANGES).exists()


async def test_its_rights_are_the_tables(tmp_path: Path, any_size: None) -> None:
    """What others may not read there they may not read here."""
    groups = table(tmp_path)
    await groups.file.flush()
    groups.file.path.chmod(0o600)
    put(groups, "g", 1)
    await groups.file.flush()
    assert (tmp_path / CHANGES).stat().st_mode & 0o777 == 0o600


def lives(chance: random.Random) -> Iterator[Callable[[GroupTable], object]]:
    """Yield changes of some groups without an end."""
    while True:
        name, number = f"g{chance.randrange(6)}", chance.randrange(100)
        kind = chance.randrange(4)
        if kind == 0:
            yield partial(GroupTable.delete, name=name)
        elif kind == 1:
            topic, forbidden = f"t{number % 3}", bool(number % 2)
            yield partial(GroupTable.forbid_reading, group=name, topic=topic, forbidden=forbidden)
        else:
            yield partial(put, name=name, retries=number)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(30))
async def test_nothing_answered_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, any_size: None, seed: int, *, full: bool
) -> None:
    """Ended before any step of ours or of the table's, or with the power gone at that moment.

    A start finds the last state that was answered, or the one that was being written; what
    could not be written while the disk was full is written, or refused, and never half there.
    """
    chance = random.Random(seed)
    files = Steps()
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        files.step()
        if target.name == NAME:
            files.removed = None  # the folder's sync that follows has that, too
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    changes = lives(chance)
    answered: dict[str, Any] = {}
    asked: list[dict[str, Any]] = []
    for life in range(12):
        groups = table(tmp_path, files)
        if life:
            assert state(groups) in [answered, *asked]
        files.left = chance.randrange(1, 40)
        try:
            if not life or chance.random() < 0.5:  # else what was found may be in memory alone
                await groups.file.save()
                answered, asked = state(groups), []
            while True:
                for _ in range(chance.randrange(1, 3)):
                    next(changes)(groups)
                asked.append(state(groups))
                calls = ("write", "sync", "sync_directory", "open", "remove") if full else ()
                files.failing = chance.choice((*calls, *[""] * 10))
                try:
                    await (groups.file.save() if chance.random() < 0.2 else groups.file.flush())
                except OSError:
                    assert groups.file.dirty or groups.file.error
                if not groups.file.dirty:
                    answered, asked = state(groups), []
        except Killed:
            pass
        files.failing = ""
        files.left = 1 << 30
        files = files.turned_off(tmp_path, chance) if chance.random() < 0.5 else files
    assert full or not (tmp_path / f"{CHANGES}.left").exists()


@pytest.mark.parametrize("failing", ["open", "write", "sync", "sync_directory"])
async def test_a_failed_append_is_followed_by_the_whole_table(
    tmp_path: Path, any_size: None, failing: str
) -> None:
    """Who asked is refused, and nothing is put behind what the disk may not have."""
    files = Steps()
    groups = table(tmp_path, files)
    await groups.file.save()
    files.failing = failing
    put(groups, "g", 7)
    with pytest.raises(OSError, match="No space"):
        await groups.file.flush()
    assert groups.file.dirty and groups.file.error is not None
    await groups.file.flush()
    assert not groups.file.dirty and groups.file.error is None
    assert json.loads(groups.file.path.read_bytes()) == state(groups)
    files.failing = ""
    put(groups, "h", 7)
    await groups.file.flush()
    assert state(table(tmp_path, files)) == state(groups)


async def test_changes_that_cannot_be_removed_harm_nothing(tmp_path: Path, any_size: None) -> None:
    """The table is written whole until they can, and a start does not take them again."""
    files = Steps()
    groups = await changed_beside(tmp_path, files)
    files.failing = "remove"
    for number in range(3):
        put(groups, "g", number)
        await groups.file.save()
        assert json.loads(groups.file.path.read_bytes()) == state(groups)
        assert state(table(tmp_path)) == state(groups)
    files.failing = ""
    put(groups, "g", 9)
    await groups.file.save()
    assert not (tmp_path / CHANGES).exists()


async def test_somebody_elses_table_is_left_as_it_is(
    tmp_path: Path, any_size: None, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ had the store after a kill: what it did stands, what it did not see is kept."""
    groups = await changed_beside(tmp_path)
    changes = (tmp_path / CHANGES).read_bytes()
    theirs = json.loads(groups.file.path.read_bytes())
    theirs["dataVersion"]["counter"] += 1
    theirs["dataVersion"]["timestamp"] += 5
    for number in range(2):
        groups.file.path.write_text(json.dumps(theirs))
        (tmp_path / CHANGES).write_bytes(changes)
        again = table(tmp_path)
        assert state(again) == theirs
        assert "somebody else has written the table since" in caplog.text
        await again.file.save()
        left = tmp_path / f"{CHANGES}.left{number or ''}"
        assert left.read_bytes() == changes
        assert not (tmp_path / CHANGES).exists()


async def test_the_backup_gets_all_changes(tmp_path: Path, any_size: None) -> None:
    """It is older than the table that is damaged; so is one that an operator has put there."""
    groups = await changed_beside(tmp_path)
    put(groups, "later", 1)
    await groups.file.save()
    put(groups, "last", 1)
    await groups.file.flush()
    groups.file.path.write_bytes(b"{")
    again = table(tmp_path)
    assert "last" in again and again.data_version == groups.data_version


async def test_no_table_takes_no_changes(tmp_path: Path, any_size: None) -> None:
    """Who has removed table and backup begins without them, as he is told he can."""
    groups = await changed_beside(tmp_path)
    for path in (groups.file.path, tmp_path / f"{NAME}.bak"):
        path.unlink(missing_ok=True)
    again = table(tmp_path)
    assert "g" not in again
    await again.file.save()
    assert (tmp_path / f"{CHANGES}.left").exists()


async def test_a_flipped_bit_takes_one_line_and_is_told(
    tmp_path: Path, any_size: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two changes the other counts, and the file stays for who wants to look at it."""
    groups = await changed_beside(tmp_path)
    path = tmp_path / CHANGES
    sound = path.read_bytes()
    first = sound.index(b"\n")
    for at in (3, 20, first // 2, first):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        caplog.clear()
        again = table(tmp_path)
        if at < first:
            assert state(again) == state(groups)  # the later line says all there is of its names
        assert "table_changes" in caplog.text
    path.write_bytes(sound[:5] + b"x" + sound[6:])
    again = table(tmp_path)
    await again.file.save()
    assert (tmp_path / f"{CHANGES}.left").read_bytes().startswith(sound[:5] + b"x")


async def test_what_cannot_be_read_ends_the_start(tmp_path: Path, any_size: None) -> None:
    """To go on would forget what was answered; the text says what can be done."""
    await changed_beside(tmp_path)
    path = tmp_path / CHANGES

    class Unreadable(Files):
        def read_all(self, path: Path, bytes_max: int) -> bytes | None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with pytest.raises(KeptFileDamaged, match=f"cannot read {path}: .*move it away"):
        table(tmp_path, Unreadable())
    text = b'{"tableVersion":7}'
    path.write_bytes(b"%08x %b\n" % (zlib.crc32(text), text))
    with pytest.raises(KeptFileDamaged, match="the version that wrote it"):
        table(tmp_path)


async def test_a_cancelled_append_is_made_up_for(tmp_path: Path, any_size: None) -> None:
    """Whether its thread has begun or not: the next one says again what it said."""
    groups = table(tmp_path)
    await groups.file.save()
    for number in range(30):
        put(groups, f"g{number}", 1)
        flushing = asyncio.create_task(groups.file.flush())
        for _ in range(number % 4):
            await asyncio.sleep(0)
        flushing.cancel()
        put(groups, f"h{number}", 1)
        await groups.file.flush()
        assert state(table(tmp_path)) == state(groups)


@pytest.mark.parametrize("left", [None, 30])
async def test_changes_that_somebody_takes_away_are_not_gone(
    tmp_path: Path, any_size: None, left: int | None
) -> None:
    """Removed or shortened under us, the file is not gone on with: all that was answered counts."""
    groups = await changed_beside(tmp_path)
    path = tmp_path / CHANGES
    content = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(content[:left])
    put(groups, "x", 5)
    with pytest.raises(OSError, match=r"No such file|has been shortened"):
        await groups.file.flush()
    await groups.file.flush()
    assert state(table(tmp_path)) == state(groups)
    assert not path.exists()


@pytest.mark.parametrize("lines", [1, 2])
async def test_damage_at_the_end_is_told_and_kept(
    tmp_path: Path, any_size: None, caplog: pytest.LogCaptureFixture, lines: int
) -> None:
    """A last line that is whole but for a bit was answered: no append that was under way."""
    await changed_beside(tmp_path)
    path = tmp_path / CHANGES
    damaged = bytearray(path.read_bytes())
    damaged[-10] ^= 1
    if lines == 2:
        damaged[30] ^= 1
    path.write_bytes(damaged)
    again = table(tmp_path)
    assert f"damaged={path} lines={lines}" in caplog.text
    assert ("g" in again) == (lines == 1)
    await again.file.save()
    assert (tmp_path / f"{CHANGES}.left").read_bytes() == damaged
    assert state(table(tmp_path)) == state(again)


async def test_a_table_made_anew_is_no_older_one(
    tmp_path: Path, any_size: None, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ has begun with the backup, or without: its counter is behind, its time is not."""
    groups = await changed_beside(tmp_path)
    theirs = json.loads(groups.file.path.read_bytes())
    theirs["dataVersion"] = {"stateVersion": 0, "counter": 1, "timestamp": next(CLOCK)}
    groups.file.path.write_text(json.dumps(theirs))
    assert state(table(tmp_path)) == theirs
    assert "somebody else has written the table since" in caplog.text


async def test_more_than_is_read_ends_the_start(
    tmp_path: Path, any_size: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the changes would pass for all of them."""
    groups = await changed_beside(tmp_path)
    monkeypatch.setattr(changes_file, "READ_BYTES_MAX", (tmp_path / CHANGES).stat().st_size)
    assert state(table(tmp_path)) == state(groups)
    monkeypatch.setattr(changes_file, "READ_BYTES_MAX", (tmp_path / CHANGES).stat().st_size - 1)
    with pytest.raises(KeptFileDamaged, match="File too large"):
        table(tmp_path)
