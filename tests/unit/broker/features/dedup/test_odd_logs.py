"""What a start makes of logs as bad weather leaves them: the same answers as if it had not been."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.features.dedup import (
    is_known,
    known,
    send,
    set_clock,
    stored,
    topic_command,
    unique_key,
    watch,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker

from aerobee.broker.app import Broker
from aerobee.broker.features.dedup import feature, replay
from aerobee.broker.features.dedup.feature import Dedup
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import ResponseCode
from aerobee.storage.layout import BOOT_NOTE, DEDUP, ENTRY_BYTES, PROGRESS, file_name
from aerobee.storage.queues.files import BLANK_ENTRY

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


@asynccontextmanager
async def serving(folder: Path, **options: str) -> AsyncIterator[tuple[Broker, RawPeer]]:
    """A broker, which knows what its log has, and a client of it."""
    async with (
        running_broker(folder, **options) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        if broker.features.find(Dedup) is not None:  # else no topic asks for it yet
            await known(broker)
        yield broker, peer


async def fill(peer: RawPeer, begin: int, end: int) -> None:
    """Send messages that are new."""
    for number in range(begin, end):
        reply = await peer.request(send(unique_key(number)))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        assert "DUPLICATE" not in reply.ext, number


async def unknown(peer: RawPeer, begin: int, end: int) -> list[int]:
    """Return which of them were not known."""
    return [n for n in range(begin, end) if not await is_known(peer, unique_key(n))]


def snapshot(folder: Path) -> Path:
    """Return where the snapshot is."""
    return folder / "store" / DEDUP


def kill(broker: Broker, folder: Path, to: Path) -> None:
    """Copy what a kill would leave."""
    broker.context.writing.tick.commit()
    shutil.copytree(folder, to)


async def test_lost_messages_hide_no_others(tmp_path: Path) -> None:
    """Their queue entries are blank, which name no position: what stands before them is read."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 10)
    older = snapshot(tmp_path).read_bytes()
    async with serving(tmp_path) as (_, peer):
        await fill(peer, 10, 30)
    snapshot(tmp_path).write_bytes(older)
    entries = tmp_path / "store" / "consumequeue" / "T" / "0" / file_name(0)
    lost = [*range(12, 19), 22]
    with entries.open("r+b") as file:
        for number in lost:
            file.seek(number * ENTRY_BYTES)
            file.write(BLANK_ENTRY)
    async with serving(tmp_path) as (_, peer):
        assert await unknown(peer, 0, 30) == lost


@pytest.mark.parametrize("read_anyway", [True, False], ids=["few", "many"])
@pytest.mark.parametrize("saved", [True, False], ids=["saved", "killed"])
@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS])
async def test_a_clock_that_went_wrong_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ms: int, saved: bool, read_anyway: bool
) -> None:
    """It is right again when the broker starts anew: what it would know, had it not, it knows.

    After a step forward that is what came since; after one back it is all.
    """
    if not read_anyway:
        monkeypatch.setattr(replay, "READ_ANYWAY", 0)
    alive = tmp_path / "alive"
    async with serving(alive) as (broker, peer):
        await watch(peer)
        firsts = await known(broker)
        now_ms = firsts.now_ms()
        await fill(peer, 0, 15)
        dedup = broker.features.find(Dedup)
        assert dedup is not None
        for begin, end, clock_ms in ((15, 40, now_ms + step_ms), (40, 43, now_ms + 1000)):
            set_clock(broker, firsts, clock_ms)
            await fill(peer, begin, end)
            if saved and begin == 15:
                await dedup._saving.save()
        kill(broker, alive, tmp_path / "killed")
    for folder in (alive, tmp_path / "killed"):
        async with serving(folder) as (_, peer):
            assert await unknown(peer, 15 if step_ms > 0 else 0, 43) == []


async def test_a_clock_that_starts_in_1970(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a machine without a battery: windows end with the newest message, not before all."""
    monkeypatch.setattr(replay, "READ_ANYWAY", 0)
    async with serving(tmp_path) as (broker, peer):
        await watch(peer)
        firsts = await known(broker)
        for begin, ago_ms in ((0, HOUR_MS), (40, 0)):
            set_clock(broker, firsts, wall_clock_ms() - ago_ms)
            await fill(peer, begin, begin + 20)
    snapshot(tmp_path).unlink()
    monkeypatch.setattr(feature, "wall_clock_ms", lambda: 1000)
    async with serving(tmp_path) as (broker, peer):
        assert (await known(broker)).keys.count == 20
        assert await unknown(peer, 40, 60) == []


@pytest.mark.parametrize("cut", range(5))
async def test_power_lost_with_unsynced_bytes(tmp_path: Path, cut: int) -> None:
    """The snapshot is newer than what is left of the log: what is lost is stored again, once."""
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    async with serving(alive) as (broker, peer):
        await watch(peer)
        await fill(peer, 0, 12)
        dedup = broker.features.find(Dedup)
        assert dedup is not None
        await dedup._saving.save()
        positions = [record.position for record in await stored(peer)]
        end = broker.store.commit_log.position
        kill(broker, alive, dead)
    store = dead / "store"
    for note in (BOOT_NOTE, PROGRESS, "checkpoint"):
        (store / note).unlink(missing_ok=True)
    holes = {0: [(7, 12)], 1: [(0, 12)], 2: [(3, 5)], 3: [(2, 3), (8, 12)], 4: [(11, 12)]}[cut]
    places = [*positions, end]
    with (store / "commitlog" / file_name(0)).open("r+b") as file:
        for first, last in holes:
            file.seek(places[first])
            file.write(bytes(places[last] - places[first]))
    lost = [number for first, last in holes for number in range(first, last)]
    async with serving(dead) as (_, peer):
        assert await unknown(peer, 0, 12) == lost
        assert await unknown(peer, 0, 12) == []
        assert len({record.position for record in await stored(peer)}) == 12


@pytest.mark.parametrize("copied", ["log", "store without snapshot", "other topics' snapshot"])
async def test_a_broker_that_takes_over_a_copy(tmp_path: Path, copied: str) -> None:
    """The log and its topics are enough: a copy of them gives the answers of the original."""
    old, new = tmp_path / "old", tmp_path / "new"
    async with serving(old) as (broker, peer):
        await watch(peer)
        await watch(peer, "U")
        await fill(peer, 0, 20)
        first = dict((await peer.request(send("U1", topic="U"))).ext)
        delayed = dict((await peer.request(send("D1", more="DELAY\x0118\x02"))).ext)
        kill(broker, old, tmp_path / "copy")
    if copied == "log":
        (new / "store").mkdir(parents=True)
        for name in ("commitlog", "config"):
            shutil.copytree(tmp_path / "copy" / "store" / name, new / "store" / name)
    else:
        shutil.copytree(tmp_path / "copy", new)
        snapshot(new).unlink(missing_ok=True)
    if copied.startswith("other"):
        async with serving(tmp_path / "third") as (_, peer):
            await watch(peer, "V")
            await peer.request(send("V1", topic="V"))
        shutil.copy(snapshot(tmp_path / "third"), snapshot(new))
    async with serving(new) as (_, peer):
        assert await unknown(peer, 0, 20) == []
        for answer, again in (
            (first, send("U1", topic="U")),
            (delayed, send("D1", more="DELAY\x0118\x02")),
        ):
            assert (await peer.request(again)).ext == {**answer, "DUPLICATE": "true"}
        assert len(await stored(peer)) == 20


async def test_the_attribute_comes_and_goes(tmp_path: Path) -> None:
    """Changed, removed and set again while messages come; each restart knows its windows."""
    async with serving(tmp_path) as (_, peer):
        for _ in range(3):
            await watch(peer)
            await fill(peer, 0, 5)
            await watch(peer, seconds=600)
            assert await unknown(peer, 0, 5) == []
            await watch(peer, seconds=0)
            assert len(await unknown(peer, 0, 5)) == 5
            await watch(peer)
            assert len(await unknown(peer, 0, 5)) == 5
            assert (await peer.request(topic_command("T", "-aerobee.dedup.seconds"))).code == 0
        await watch(peer)
    async with serving(tmp_path) as (_, peer):
        assert await unknown(peer, 0, 5) == []
        assert len(await stored(peer)) == 3 * 3 * 5
