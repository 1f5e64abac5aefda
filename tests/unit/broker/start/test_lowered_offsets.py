"""A store that lost its end: groups see every message that comes afterwards."""

from pathlib import Path
from typing import Any

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command

from aerobee.broker.app import Broker
from aerobee.broker.start import lowered_offsets as lowering
from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command


async def fill(broker: Broker, count: int, body: bytes) -> None:
    """Send so many messages to queue 0 of T."""
    async with await RawPeer.connect(broker.port) as peer:
        for _ in range(count):
            assert (await peer.request(send_command(body))).code == ResponseCode.SUCCESS


def lose_the_end(root: Path, kept: int) -> None:
    """Zero the log behind its first `kept` records, as power loss does, and forget our notes."""
    log_file = next((root / "store/commitlog").iterdir())
    data = bytearray(log_file.read_bytes())
    at = 0
    for _ in range(kept):
        at += int.from_bytes(data[at : at + 4], "big")
    data[at:] = bytes(len(data) - at)
    log_file.write_bytes(data)
    for name in ("aerobee.written", "aerobee.progress", "checkpoint"):
        (root / "store" / name).unlink(missing_ok=True)
    (root / "store/abort").touch()


async def test_offsets_beyond_the_end_are_lowered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten messages were consumed, five were lost, six come: the group gets all six."""
    async with running_broker(tmp_path) as broker:
        await fill(broker, 10, b"before")
        offsets = broker.context.tables.offsets
        offsets.commit("g", "T", 0, 10)
        offsets.commit("g@broadcast", "T", 0, 9)
        offsets.commit("slow", "T", 0, 3)
        offsets.commit("g", "gone", 2, 7)
    lose_the_end(tmp_path, 5)
    async with running_broker(tmp_path) as broker:
        offsets = broker.context.tables.offsets
        assert offsets.committed("g", "T", 0) == 5
        assert offsets.committed("g@broadcast", "T", 0) == 5
        assert offsets.committed("slow", "T", 0) == 3
        assert offsets.committed("g", "gone", 2) == 0, "its next message gets the offset 0"
        assert caplog.text.count("offsets_lowered group=g ") == 1
        assert "queues=2 first=T-0 from=10 to=5" in caplog.text
        table = (tmp_path / "store/config/consumerOffset.json").read_bytes()
        assert b'"T@g":{0:5}' in table, "saved before a message came: a kill changes nothing"
        kept = tmp_path / "store/config/consumerOffset.json.lowered"
        assert b"10" in kept.read_bytes() and str(kept) in caplog.text
        await fill(broker, 6, b"after")
        async with await RawPeer.connect(broker.port) as peer:
            reply = await peer.request(pull_command(5, consumerGroup="g"))
            assert reply.ext["nextBeginOffset"] == "11"
    caplog.clear()
    async with running_broker(tmp_path) as broker:
        assert broker.context.tables.offsets.committed("g", "T", 0) == 5
    assert "offsets_lowered" not in caplog.text


async def test_a_member_that_is_beyond_the_end_is_sent_back(tmp_path: Path) -> None:
    """A consumer that kept its own offset over the restart must not pass over what comes."""
    async with running_broker(tmp_path) as broker:
        await fill(broker, 10, b"before")
        broker.context.tables.offsets.commit("g", "T", 0, 8)
        broker.context.tables.offsets.commit("there", "T", 0, 8)
    lose_the_end(tmp_path, 5)
    async with running_broker(tmp_path) as broker:
        await fill(broker, 12, b"after")
        offsets = broker.context.tables.offsets
        assert offsets.commit("g", "T", 0, 10) and offsets.committed("g", "T", 0) == 5
        async with await RawPeer.connect(broker.port) as peer:
            reply = await peer.request(pull_command(10, consumerGroup="g"))
            assert reply.code == ResponseCode.PULL_OFFSET_MOVED
            assert reply.ext["nextBeginOffset"] == "5"
            reply = await peer.request(pull_command(5, consumerGroup="g"))
            assert (reply.code, reply.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, "17")
            reply = await peer.request(pull_command(5, consumerGroup="there"))
            assert (reply.code, reply.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, "17")
        assert offsets.commit("g", "T", 0, 17) and offsets.committed("g", "T", 0) == 17


async def test_a_deleted_topic_takes_its_offsets_from_the_disk(tmp_path: Path) -> None:
    """Killed after a topic of that name was made again: its first messages are not passed over."""
    table = tmp_path / "store/config/consumerOffset.json"
    async with running_broker(tmp_path) as broker:
        await fill(broker, 3, b"before")
        offsets = broker.context.tables.offsets
        offsets.commit("g", "T", 0, 3)
        await offsets.flush()
        assert b"T@g" in table.read_bytes()
        async with await RawPeer.connect(broker.port) as peer:
            delete = Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}, opaque=9)
            assert (await peer.request(delete)).code == ResponseCode.SUCCESS
        assert b"T@g" not in table.read_bytes()


async def test_the_lines_of_many_groups_are_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replaced store can concern every group; each is lowered, a few are named."""
    monkeypatch.setattr(lowering, "LINES_MAX", 3)
    async with running_broker(tmp_path) as broker:
        for number in range(8):
            broker.context.tables.offsets.commit(f"g{number}", "T", 0, 4)
    async with running_broker(tmp_path) as broker:
        assert {broker.context.tables.offsets.committed(f"g{n}", "T", 0) for n in range(8)} == {0}
    assert caplog.text.count("offsets_lowered group=") == 3
    assert "offsets_lowered groups=8 not_named=5" in caplog.text


def test_a_store_that_is_only_read_changes_no_offset(tmp_path: Path) -> None:
    """What cannot be written there may be missing for a while only."""

    class ReadOnly:
        read_only = True

    store: Any = ReadOnly()
    offsets = OffsetTable(lambda: 0, tmp_path)
    offsets.commit("g", "T", 0, 4)
    assert lowering.lower_offsets(offsets, store) == 0
    assert offsets.committed("g", "T", 0) == 4
