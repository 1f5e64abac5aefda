"""Committed offsets: remembered, reset, written without stalling anybody."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from support.golden.tables import GROUP, OFFSETS, TOPIC

from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting import fastjson

GOLDEN = Path(__file__).parents[3] / "golden" / "config"


def table(folder: Path, *, version_step: int = 500) -> OffsetTable:
    """Make a loaded table in `folder`."""
    offsets = OffsetTable(lambda: 1000, folder, version_step=version_step)
    offsets.load()
    return offsets


def test_rocketmqs_file_is_read_and_ours_has_its_shape(tmp_path: Path) -> None:
    """Integer keys come and go without quotes, as fastjson writes them."""
    original = (GOLDEN / "consumerOffset.json").read_bytes()
    (tmp_path / "consumerOffset.json").write_bytes(original)
    offsets = table(tmp_path)
    assert offsets.of_group(GROUP, TOPIC) == OFFSETS
    written = offsets.encode()
    assert b'"golden-topic@golden-group":{0:7,1:0,3:4294967296}' in written
    stored = fastjson.loads(original)
    assert fastjson.loads(written) == {
        key: stored[key] for key in ("dataVersion", "offsetTable")
    }, "what RocketMQ derives from the offsets is not written"


def test_quoted_keys_are_read_too(tmp_path: Path) -> None:
    """Standard JSON writers quote them."""
    (tmp_path / "consumerOffset.json").write_text('{"offsetTable":{"t@g":{"0":5,"1":6}}}')
    assert table(tmp_path).of_group("g", "t") == {0: 5, 1: 6}


def test_commits_are_remembered_even_backwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A group decides where it goes on; going back is only worth a line in the log."""
    offsets = table(tmp_path)
    assert offsets.committed("g", "t", 0) is None
    offsets.commit("g", "t", 0, 10)
    offsets.commit("g", "t", 0, 4, "10.0.0.1:5")
    assert offsets.committed("g", "t", 0) == 4
    assert "offset_went_back key=t@g queue=0 from=10 to=4 remote=10.0.0.1:5" in caplog.text
    assert offsets.committed("g", "t", 1) is None
    assert offsets.topics_of("g") == ["t"] and offsets.groups_of("t") == ["g"]


def test_the_version_counts_steps_of_commits(tmp_path: Path) -> None:
    """consumerOffsetUpdateVersionStep: a version for every commit would be no news."""
    offsets = table(tmp_path, version_step=3)
    for offset in range(7):
        offsets.commit("g", "t", 0, offset)
        offsets.commit("g", "t", 0, offset)
    assert offsets.data_version.counter == 2, "a repeated commit changes nothing"


def test_pull_offsets_fall_back_to_committed_ones(tmp_path: Path) -> None:
    """Who never pulled is where it committed."""
    offsets = table(tmp_path)
    offsets.commit("g", "t", 0, 10)
    assert offsets.pull_offset("g", "t", 0) == 10
    offsets.pulled("g", "t", 0, 12)
    assert offsets.pull_offset("g", "t", 0) == 12


async def test_deletions_reach_the_file(tmp_path: Path) -> None:
    """Offsets of a deleted topic or group are gone after a restart, others are not."""
    offsets = table(tmp_path)
    for group in ("g", "h"):
        for topic in ("t", "u"):
            offsets.commit(group, topic, 0, 1)
    offsets.commit("g@broadcast", "t", 0, 1)
    await offsets.flush()
    offsets.delete_group("g")
    offsets.delete_topic("u")
    await offsets.flush()
    again = table(tmp_path)
    assert again.committed("h", "t", 0) == 1
    assert again.committed("g@broadcast", "t", 0) is None
    assert again.topics_of("g") == [] and again.groups_of("u") == []


async def test_a_large_table_does_not_stall_the_loop(tmp_path: Path) -> None:
    """20,000 entries of 8 queues are encoded in turns; other work goes on between them."""
    offsets = table(tmp_path)
    for number in range(20_000):
        for queue_id in range(8):
            offsets.commit(f"g{number % 100}", f"topic-{number}", queue_id, number)
    turns = 0
    saving = asyncio.create_task(offsets.flush())
    while not saving.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 40
    again = table(tmp_path)
    assert again.of_group("g7", "topic-107") == dict.fromkeys(range(8), 107)
    started = time.process_time()
    offsets.commit("g7", "topic-107", 0, 108)
    await offsets.flush()
    assert time.process_time() - started < 1.0
    assert table(tmp_path).committed("g7", "topic-107", 0) == 108


async def test_commits_during_a_write_are_not_lost(tmp_path: Path) -> None:
    """What changes while the file is written makes it dirty again."""
    offsets = table(tmp_path)
    offsets.commit("g", "t", 0, 1)
    saving = asyncio.create_task(offsets.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    offsets.commit("g", "t", 0, 2)
    await saving
    await offsets.flush()
    assert json.loads((tmp_path / "consumerOffset.json").read_bytes().replace(b"{0:", b'{"0":'))[
        "offsetTable"
    ] == {"t@g": {"0": 2}}


def test_no_more_offsets_than_allowed(tmp_path: Path) -> None:
    """Those that are known go on; a deleted group makes room, and a file of more is read."""
    offsets = OffsetTable(lambda: 1000, tmp_path, offsets_max=2)
    assert offsets.commit("g", "t", 0, 1) and offsets.commit("h", "t", 0, 1)
    assert not offsets.commit("g", "t", 1, 1)
    assert not offsets.commit("k", "t", 0, 1)
    assert offsets.commit("g", "t", 0, 7)
    assert [key for key, _, _ in offsets.entries()] == ["t", "t"]
    for queue_id in range(9):
        offsets.pulled("g", "t", queue_id, 5)
    assert offsets.pull_offset("g", "t", 1) == 5
    assert offsets.pull_offset("g", "t", 2) is None
    offsets.delete_group("h")
    assert offsets.commit("g", "t", 1, 1)
    offsets.file.flush_now()
    smaller = OffsetTable(lambda: 1000, tmp_path, offsets_max=1)
    smaller.load()
    assert smaller.of_group("g", "t") == {0: 7, 1: 1}
    assert not smaller.commit("g", "t", 2, 1)
