"""Of what compiled sends bring the keys need no look at the log; who has few is the loop's."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.features.index import feature, indexing
from aerobee.broker.features.index.feature import MessageIndex
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.record import decode_record
from aerobee.storage.features.index.choice import compiled
from aerobee.storage.features.index.growing import GrowingFile
from aerobee.storage.features.index.indexer import Indexer

pytestmark = pytest.mark.skipif(
    not (is_compiled() and compiled()), reason="built without a C compiler"
)

SMALL = {"max_hash_slot_num": 100, "max_index_num": 100_000}


@pytest.fixture(params=["loop", "thread"])
def taken_soon(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Have one of them take whatever comes; return who."""
    monkeypatch.setattr(feature, "FOLLOW_INTERVAL_S", 0.005)
    monkeypatch.setattr(indexing, "TURN_BYTES", 1 << 30 if request.param == "loop" else 0)
    return str(request.param)


def index_of(live: LiveBroker) -> MessageIndex:
    """The room of the index."""
    return next(room for room in live.broker.rooms if isinstance(room, MessageIndex))


async def send(live: LiveBroker, numbers: range, more: str = "", keys: str = "") -> None:
    """Send messages all at once, each with its number as a key."""

    async def one(number: int) -> None:
        text = f"UNIQ_KEY\x01U{number}\x02KEYS\x01k{number} all{keys}\x02TAGS\x01A\x02{more}"
        header = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": number % 4, "f": 0, "g": 1,
                  "h": 0, "i": text, "j": 0, "k": "false", "m": "false"}  # fmt: skip
        sent = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"%d" % number)
        assert sent.code == ResponseCode.SUCCESS

    await asyncio.gather(*map(one, numbers))


async def warm(live: LiveBroker) -> None:
    """Have the topic known, its queues on the short list, and the index file made."""
    await send(live, range(1))
    for number in range(1, 5):
        await send(live, range(number, number + 1))
    await settled(live)


async def settled(live: LiveBroker) -> None:
    """Wait for the index to have all."""
    room = index_of(live)
    log = live.broker.store.commit_log
    await until(lambda: room.indexing.position == log.committed, what="all to be indexed")


async def found(live: LiveBroker, key: str, count: int = 1) -> list[bytes]:
    """The bodies of the messages with a key."""
    header = {"topic": "t", "key": key, "maxNum": count, "beginTimestamp": 0,
              "endTimestamp": (1 << 63) - 1}  # fmt: skip
    reply = await live.ask(RequestCode.QUERY_MESSAGE, header)
    bodies, at = [], 0
    while at < len(reply.body):
        record = decode_record(reply.body, at)
        bodies.append(bytes(record.body))
        at += record.total_size
    return bodies


async def all_found(live: LiveBroker, numbers: range) -> None:
    """Assert that each is found, by one entry."""
    for number in numbers:
        assert await found(live, f"k{number}", 9) == [b"%d" % number]
    assert await found(live, "all", len(numbers)) == [b"%d" % number for number in numbers][-64:]


@pytest.fixture
def advanced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many bytes of the log the thread has read, each time."""
    counts: list[int] = []
    advance = Indexer.advance

    def counted(self: Indexer, *given: Any) -> bool:
        before = self.position
        more = advance(self, *given)
        counts.append(self.position - before)
        return more

    monkeypatch.setattr(Indexer, "advance", counted)
    yield counts


@pytest.mark.usefixtures("taken_soon")
async def test_the_log_is_not_read_for_plain_sends(tmp_path: Path, advanced: list[int]) -> None:
    """All keys are there, in the log's order."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        advanced.clear()
        for begin in range(5, 60, 11):
            await send(live, range(begin, begin + 11))
            await settled(live)
        await all_found(live, range(60))
        assert sum(advanced) == 0
        assert index_of(live).indexer.entries == 60 * 4


async def test_few_are_taken_in_a_moment(tmp_path: Path, advanced: list[int]) -> None:
    """What is less than a portion does not wait for more."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        advanced.clear()
        await send(live, range(5, 9))
        assert index_of(live).runs.waiting_bytes > 0  # type: ignore[union-attr]
        await settled(live)
        assert sum(advanced) == 0
        await all_found(live, range(9))


@pytest.mark.usefixtures("taken_soon")
async def test_what_came_another_way_is_read_from_the_log(tmp_path: Path) -> None:
    """Sends with properties that the checked path stores, between others."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        for begin in range(5, 35, 6):
            await send(live, range(begin, begin + 3))
            await send(live, range(begin + 3, begin + 6), more="CLUSTER\x01x\x02")
        await settled(live)
        for number in range(35):
            assert await found(live, f"k{number}", 9) == [b"%d" % number]
        assert index_of(live).indexer.entries == 35 * 4


@pytest.mark.usefixtures("taken_soon")
async def test_very_many_keys_are_the_threads(tmp_path: Path, advanced: list[int]) -> None:
    """Whoever sends them holds up nobody."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        advanced.clear()
        await send(live, range(5, 9), keys=" x" * 2000)
        await send(live, range(9, 20))
        await settled(live)
        assert sum(advanced) > 0
        await all_found(live, range(20))
        assert index_of(live).indexer.entries == 20 * 4 + 4 * 2000


@pytest.mark.usefixtures("taken_soon")
async def test_while_the_thread_has_the_index_runs_wait(tmp_path: Path) -> None:
    """For a sync, say; the loop goes on, and takes them afterwards though nothing comes."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        room = index_of(live)
        before = room.indexing.position
        with room.indexing._changing:
            await send(live, range(5, 30))
            assert room.indexing.position == before
        await settled(live)
        await all_found(live, range(30))


@pytest.mark.usefixtures("taken_soon")
async def test_what_has_no_room_to_wait_is_read_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory has a bound; nothing is missing."""
    monkeypatch.setattr(feature, "RUNS_BYTES_MAX", 200)
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        room = index_of(live)
        assert room.runs is not None
        with room.indexing._changing:
            for number in range(5, 30):
                await send(live, range(number, number + 1))
            assert room.runs.left_out > 0
            assert room.runs.waiting_bytes < 400
        await settled(live)
        await send(live, range(30, 35))
        await all_found(live, range(35))
        assert room.indexer.entries == 35 * 4


@pytest.mark.usefixtures("taken_soon")
async def test_a_file_that_is_full_is_followed_by_the_next(tmp_path: Path) -> None:
    """The thread syncs it and makes the next, with the keys of one record in both."""
    async with live_broker(tmp_path, max_hash_slot_num=10, max_index_num=50) as live:
        await warm(live)
        for begin in range(5, 95, 30):
            await send(live, range(begin, begin + 30))
        await settled(live)
        await all_found(live, range(95))
        assert index_of(live).indexer.entries == 95 * 4
        assert len(list((tmp_path / "store" / "index").iterdir())) == -(-95 * 4 // 49)


@pytest.mark.usefixtures("taken_soon")
async def test_a_disk_that_refuses_the_loop_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends go on; what could not be written is indexed once, when it can."""
    monkeypatch.setattr("aerobee.broker.features.index.indexing.RETRY_INTERVAL_S", 0.05)
    write: Callable[..., None] = GrowingFile._write
    full = False

    def written(self: GrowingFile, data: bytes, at: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, "no space left")
        write(self, data, at)

    monkeypatch.setattr(GrowingFile, "_write", written)
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        full = True
        await send(live, range(5, 20))
        room = index_of(live)
        await until(lambda: "no space left" in (room.indexing.error or ""), what="the refusal")
        await send(live, range(20, 30))
        full = False
        await until(lambda: room.indexing.error is None, what="it to be tried again")
        await send(live, range(30, 40))
        await settled(live)
        await all_found(live, range(40))


@pytest.mark.usefixtures("taken_soon")
async def test_an_index_that_rests_keeps_no_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may be full for days, and behind it the log is read anyhow."""
    monkeypatch.setattr("aerobee.broker.features.index.indexing.RETRY_INTERVAL_S", 0.05)

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        room = index_of(live)
        with monkeypatch.context() as full:
            full.setattr(GrowingFile, "_write", refused)
            await send(live, range(5, 20))
            await until(lambda: room.indexing.error is not None, what="the refusal")
            await send(live, range(20, 30))
            await until(lambda: room.indexing._waiting == 0, what="the hashes to be let go")
            assert room.indexing.error is not None
        await until(lambda: room.indexing.error is None, what="it to be tried again")
        await settled(live)
        await all_found(live, range(30))


@pytest.mark.usefixtures("taken_soon")
async def test_a_stop_syncs_what_was_written(tmp_path: Path, advanced: list[int]) -> None:
    """The next start goes on behind it, without reading the log again."""
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        await send(live, range(5, 50))
    advanced.clear()
    async with live_broker(tmp_path, **SMALL) as live:
        assert await found(live, "k49") == [b"49"]
        assert sum(advanced) == 0


@pytest.mark.usefixtures("taken_soon")
async def test_the_thread_syncs_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By time, though nobody has offered it anything."""
    monkeypatch.setattr("aerobee.broker.features.index.indexing.SYNC_INTERVAL_S", 0.1)
    async with live_broker(tmp_path, **SMALL) as live:
        await warm(live)
        room = index_of(live)
        await until(lambda: room.indexing._rests, what="the thread to rest")
        await send(live, range(5, 9))
        synced = room.indexing
        await until(lambda: synced._synced_at == synced.position, what="a sync")
        await until(lambda: room.indexing._rests, what="the thread to rest again")
