"""What a broker knows of unique keys after any stop: what the log has, whatever was saved."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.features.dedup import batch, known, send, stored, topic_command, unique_key, watch
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command

from aerobee.broker.app import Broker
from aerobee.broker.features.dedup import feature, firsts, recovery
from aerobee.broker.features.dedup.feature import Dedup
from aerobee.broker.writing.firsts import key_of
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.storage.features.dedup.snapshot import ROW, decode_snapshot, encode_snapshot

DELAY = "DELAY\x0118\x02"


@asynccontextmanager
async def serving(folder: Path, **options: str) -> AsyncIterator[tuple[Broker, RawPeer]]:
    """A broker and a client of it."""
    async with (
        running_broker(folder, **options) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        yield broker, peer


def snapshot(folder: Path) -> Path:
    """Return where the snapshot is."""
    return folder / "store" / "aerobee.dedup"


async def fill(peer: RawPeer, begin: int, end: int) -> dict[str, dict[str, str]]:
    """Send messages to all queues, single ones, a batch and a delayed one; return the answers."""
    answers = {}
    for number in range(begin, end):
        reply = await peer.request(send(unique_key(number), queue_id=number % 4))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        answers[unique_key(number)] = dict(reply.ext)
    assert (await peer.request(batch([f"B{begin}", f"C{begin}"]))).code == ResponseCode.SUCCESS
    assert (await peer.request(send(f"D{begin}", more=DELAY))).code == ResponseCode.SUCCESS
    return answers


async def check(peer: RawPeer, begins: list[int], answers: dict[str, dict[str, str]]) -> None:
    """Everything that was sent is known, with the answers that it had."""
    count = len(await stored(peer))
    for key, answer in answers.items():
        again = dict((await peer.request(send(key))).ext)
        assert again.pop("DUPLICATE") == "true", key
        assert again == answer, "also the id, with the port that the broker had"
    for begin in begins:
        for key in (f"B{begin}", f"C{begin}"):
            assert (await peer.request(send(key))).ext["DUPLICATE"] == "true"
        assert (await peer.request(send(f"D{begin}", more=DELAY))).ext["DUPLICATE"] == "true"
    assert len(await stored(peer)) == count
    assert "DUPLICATE" not in (await peer.request(send("NEVER1"))).ext


def leave(path: Path) -> None:
    """Leave the snapshot as it is."""


def remove(path: Path) -> None:
    """There is none."""
    path.unlink(missing_ok=True)


def damage(path: Path) -> None:
    """One bit is another."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Its end is missing."""
    path.write_bytes(path.read_bytes()[:-9])


def boast(path: Path) -> None:
    """It has keys of a log that was longer, as before a loss of power."""
    found = decode_snapshot(path.read_bytes())
    assert found is not None
    (number,) = found.topics
    more = [ROW.pack(bytes(16), 1 << 40, 1, number), ROW.pack(bytes([1] * 16), 500_000, 1, number)]
    path.write_bytes(encode_snapshot(found.topics, [found.rows, *more]))


@pytest.mark.parametrize("change", [leave, remove, damage, cut, boast])
@pytest.mark.parametrize("fast", ["true", "false"])
async def test_after_a_clean_stop(
    tmp_path: Path, change: Callable[[Path], None], fast: str
) -> None:
    """The snapshot is read; without a sound one the log says the same."""
    async with serving(tmp_path, compiledFastPath=fast) as (_, peer):
        await watch(peer)
        answers = await fill(peer, 0, 20)
    assert snapshot(tmp_path).exists()
    change(snapshot(tmp_path))
    async with serving(tmp_path, compiledFastPath=fast) as (_, peer):
        await check(peer, [0], answers)


@pytest.mark.parametrize("saved", ["never", "before", "at last"])
async def test_after_a_kill(tmp_path: Path, saved: str) -> None:
    """The snapshot may be older than the log, or none may have been written."""
    async with serving(tmp_path / "alive") as (broker, peer):
        await watch(peer)
        dedup = broker.features.find(Dedup)
        assert dedup is not None
        answers = await fill(peer, 0, 10)
        if saved == "before":
            await dedup._saving.save()
        answers |= await fill(peer, 10, 20)
        if saved == "at last":
            await dedup._saving.save()
        broker.context.writing.tick.commit()
        shutil.copytree(tmp_path / "alive", tmp_path / "killed")
    assert snapshot(tmp_path / "killed").exists() is (saved != "never")
    async with serving(tmp_path / "killed") as (_, peer):
        await check(peer, [0, 10], answers)


async def test_a_snapshot_of_another_log(tmp_path: Path) -> None:
    """Of the time before an older log was restored, or another broker cut it: the log counts."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 5)
    shutil.copytree(tmp_path, tmp_path / "old" / "x")
    async with serving(tmp_path) as (_, peer):
        gone = await fill(peer, 100, 130)
    newer = snapshot(tmp_path).read_bytes()
    shutil.rmtree(tmp_path / "store")
    shutil.copytree(tmp_path / "old" / "x" / "store", tmp_path / "store")
    async with serving(tmp_path, dedupEntriesMax="0") as (_, peer):  # writes, and keeps no keys
        answers = await fill(peer, 200, 220)
    snapshot(tmp_path).write_bytes(newer)
    async with serving(tmp_path) as (_, peer):
        for key in gone:
            assert "DUPLICATE" not in (await peer.request(send(key))).ext, "it was lost"
        await check(peer, [200], answers)


async def test_what_is_older_than_the_window_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the broker was away, with a snapshot or without."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 5)
    monkeypatch.setattr(feature, "wall_clock_ms", lambda: wall_clock_ms() + 61_000)
    for change in (leave, remove):
        change(snapshot(tmp_path))
        async with serving(tmp_path) as (broker, _):
            known_now = await known(broker)
            assert known_now.keys.find(1, key_of(unique_key(3)), known_now.now_ms()) == -1


async def test_a_topic_that_was_made_anew(tmp_path: Path) -> None:
    """The snapshot has keys of its earlier life, whose messages are no more."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 5)
    kept = snapshot(tmp_path).read_bytes()
    async with serving(tmp_path) as (_, peer):
        ext, code = {"topic": "T"}, RequestCode.DELETE_TOPIC_IN_BROKER
        assert (await peer.request(Command(code=code, ext=ext, opaque=next_opaque()))).code == 0
        await watch(peer)
        answers = await fill(peer, 50, 60)
    snapshot(tmp_path).write_bytes(kept)
    async with serving(tmp_path) as (_, peer):
        assert "DUPLICATE" not in (await peer.request(send(unique_key(3)))).ext
        await check(peer, [50], answers)


async def test_without_topics_there_is_no_file(tmp_path: Path) -> None:
    """It goes with the last topic that asks; nothing is allocated before the first one does."""
    async with serving(tmp_path) as (broker, peer):
        await watch(peer)
        await fill(peer, 0, 3)
    assert snapshot(tmp_path).exists()
    async with serving(tmp_path) as (broker, peer):
        assert (await peer.request(topic_command("T", "-aerobee.dedup.seconds"))).code == 0
        await known(broker)
    assert not snapshot(tmp_path).exists()
    async with serving(tmp_path) as (broker, peer):
        assert broker.features.find(Dedup) is None


@pytest.mark.parametrize("fast", ["true", "false"])
async def test_what_has_no_key_meanwhile_opens_no_way_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    """It need not wait for the log to be read; who comes later to its queue is looked up."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 3)
    read_on, run = asyncio.Event(), recovery.KeyRecovery.run

    async def late(self: recovery.KeyRecovery) -> None:
        await read_on.wait()
        await run(self)

    monkeypatch.setattr(recovery.KeyRecovery, "run", late)
    async with serving(tmp_path, compiledFastPath=fast) as (broker, peer):
        assert (await peer.request(send_command(b"no key", properties=""))).code == 0
        read_on.set()
        await known(broker)
        assert "DUPLICATE" in (await peer.request(send(unique_key(0)))).ext
        assert "DUPLICATE" not in (await peer.request(send(unique_key(9)))).ext
        assert "DUPLICATE" in (await peer.request(send(unique_key(9)))).ext


async def test_sends_wait_until_the_log_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For two seconds at most, then they hear that the broker is busy; others need not wait."""
    async with serving(tmp_path) as (_, peer):
        await watch(peer)
        await fill(peer, 0, 3)
    monkeypatch.setattr(firsts, "READY_WAIT_S", 0.05)

    async def never(self: object) -> None:
        raise OSError("the disk does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(recovery.KeyRecovery, "run", never)
        async with serving(tmp_path) as (_, peer):
            refused = await peer.request(send(unique_key(1)))
            assert refused.code == ResponseCode.SYSTEM_BUSY
            assert "[TIMEOUT_CLEAN_QUEUE]" in (refused.remark or "")
            assert (await peer.request(send(unique_key(1), topic="Plain"))).code == 0
    async with serving(tmp_path) as (broker, peer):
        await known(broker)
        assert "DUPLICATE" in (await peer.request(send(unique_key(1)))).ext
