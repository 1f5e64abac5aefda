"""Messages are found by their keys through the broker, as RocketMQ's clients ask (12)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.disks.small_disk import remount, small_disk
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.index import feature, questions
from aerobee.broker.features.index.feature import MessageIndex
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.net.client import ConnectionPool
from aerobee.storage.disk.files import Files
from aerobee.storage.proofs.checkpoint import read_checkpoint

SMALL = {"max_hash_slot_num": 100, "max_index_num": 1000}


def records(reply: Command) -> list[Record]:
    """The messages of an answer."""
    found, at = [], 0
    while at < len(reply.body):
        found.append(decode_record(reply.body, at))
        at += found[-1].total_size
    return found


async def ask(
    live: LiveBroker, key: str, *, pool: ConnectionPool | None = None, **more: Any
) -> Command:
    """Ask for the messages with a key."""
    header: dict[str, str | int] = {
        "topic": "t", "key": key, "maxNum": 32, "beginTimestamp": 0,
        "endTimestamp": (1 << 63) - 1,
    }  # fmt: skip
    return await live.ask(RequestCode.QUERY_MESSAGE, header | more, pool=pool)


async def send(live: LiveBroker, count: int, topic: str = "t", keys: str = "k{0} all") -> None:
    """Send messages with a unique key, keys and tags; a topic is made by the first."""
    for number in range(count):
        text = f"UNIQ_KEY\x01U{number}\x02KEYS\x01{keys.format(number)}\x02TAGS\x01A\x02"
        header = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        sent = await live.ask(RequestCode.SEND_MESSAGE_V2, header | {"i": text}, b"%d" % number)
        assert sent.code == ResponseCode.SUCCESS


async def test_what_was_just_sent_is_found_by_each_key(tmp_path: Path) -> None:
    """A question waits for the index to have what was stored before it."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 40)
        (one,) = records(await ask(live, "k17"))
        assert one.body == b"17"
        found = await ask(live, "all")
        assert [record.body for record in records(found)] == [b"%d" % n for n in range(8, 40)]
        newest = records(found)[-1]
        assert found.ext == {
            "indexLastUpdateTimestamp": str(newest.store_timestamp),
            "indexLastUpdatePhyoffset": str(newest.position),
        }
        assert [r.body for r in records(await ask(live, "A", indexType="T", maxNum=2))] == [
            b"38", b"39",
        ]  # fmt: skip
        unique = await ask(live, "U3", maxNum=0, _UNIQUE_KEY_QUERY="true")
        assert [record.body for record in records(unique)] == [b"3"]
        assert parse_properties(records(unique)[0].properties)["UNIQ_KEY"] == "U3"


async def test_what_is_not_there_has_rocketmqs_words(tmp_path: Path) -> None:
    """Another topic, another time, no key of that name; and times meet to the second."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 3)
        (one,) = records(await ask(live, "k1"))
        stored = one.store_timestamp
        for more in (
            {"key": "k9"}, {"topic": "u"}, {"beginTimestamp": stored + 2000},
            {"endTimestamp": stored - 2000}, {"maxNum": 0}, {"indexType": "T"},
        ):  # fmt: skip
            missed = await ask(live, **({"key": "k1"} | more))
            assert missed.code == ResponseCode.QUERY_NOT_FOUND
            assert missed.remark == "can not find message, maybe time range not correct"
        exact = await ask(live, "k1", beginTimestamp=stored, endTimestamp=stored + 1000)
        assert len(records(exact)) == 1


async def test_keys_of_equal_hash_take_nobodys_place(tmp_path: Path) -> None:
    """`Aa` and `BB` have one hash in Java: only what has the key is answered."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 1, keys="Aa")
        await send(live, 70, keys="BB")
        assert len(records(await ask(live, "Aa", maxNum=1))) == 1
        assert len(records(await ask(live, "BB", maxNum=1000))) == 64, "maxMsgsNumBatch"


async def test_a_restart_goes_on_and_nothing_comes_twice(tmp_path: Path) -> None:
    """After a clean stop; what the log has is found, by one entry each."""
    for total in (5, 10):
        async with live_broker(tmp_path, **SMALL) as live:
            await send(live, 5)
            assert len(records(await ask(live, "all", maxNum=64))) == total
            feature = next(r for r in live.broker.rooms if type(r).__name__ == "MessageIndex")
            assert feature.shown()["index"]["position"] > 0
            newest = records(await ask(live, "all", maxNum=64))[-1]
        kept = read_checkpoint(Files(), tmp_path / "store")
        assert kept.index_timestamp == newest.store_timestamp, "RocketMQ keeps all of it"
    async with live_broker(tmp_path, **SMALL) as live:
        await ask(live, "all")
        assert not live.broker.store.aborted


async def test_a_topic_that_is_made_again_has_none_of_the_old_messages(tmp_path: Path) -> None:
    """A deleted topic's messages are found as little by key as by their place in the log (33)."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 3)
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert (await ask(live, "all")).code == ResponseCode.QUERY_NOT_FOUND
        await send(live, 1)
        assert [record.body for record in records(await ask(live, "all"))] == [b"0"]
    async with live_broker(tmp_path, **SMALL) as live:
        assert len(records(await ask(live, "all"))) == 1


async def test_an_index_that_rests_says_why_and_sends_go_on(tmp_path: Path) -> None:
    """Files of another size: the answer, `/readyz` and a metric name it."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 2)
        await ask(live, "all")
    async with live_broker(tmp_path, max_hash_slot_num=200, http_port=0) as live:
        await send(live, 1)
        refused = await ask(live, "all")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "maxHashSlotNum=200" in (refused.remark or "")
        assert "messages are not found by key" in (await live.get("/readyz"))[1]
        assert "aerobee_index_resting 1" in (await live.get("/metrics"))[1]


async def test_switched_off_there_is_no_index(tmp_path: Path) -> None:
    """No file, no code 12."""
    async with live_broker(tmp_path, message_index_enable=False) as live:
        await send(live, 2)
        assert (await ask(live, "all")).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert not (tmp_path / "store" / "index").exists()


async def test_a_store_that_is_only_read_is_asked_all_the_same(tmp_path: Path) -> None:
    """What the last process indexed is found; of the rest the answer says why it may be missing."""
    with small_disk(tmp_path / "disk", 8) as disk:
        async with live_broker(disk, **SMALL) as live:
            await send(live, 3)
        remount(disk, "ro")
        async with live_broker(disk, **SMALL) as live:
            (one,) = records(await ask(live, "k1"))
            assert one.body == b"1"
            missed = await ask(live, "k7")
            assert missed.code == ResponseCode.SYSTEM_ERROR
            assert missed.remark == "the store is open for reading only"
            remount(disk, "rw")


async def test_a_damaged_index_refuses_what_it_may_lack(tmp_path: Path) -> None:
    """One bit of an entry's way to the one before it: the answer and `/readyz` name the file."""
    async with live_broker(tmp_path, max_hash_slot_num=100, max_index_num=50) as live:
        await send(live, 40)
        assert len(records(await ask(live, "all"))) == 32
    path = min((tmp_path / "store" / "index").iterdir())
    data = bytearray(path.read_bytes())
    data[40 + 4 * 100 + 20 * 40 + 19] ^= 1
    path.write_bytes(data)
    async with live_broker(tmp_path, max_hash_slot_num=100, max_index_num=50, http_port=0) as live:
        assert len(records(await ask(live, "k39"))) == 1, "of another file"
        assert "damaged" not in (await live.get("/readyz"))[1]
        refused = await ask(live, "all", maxNum=64)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert path.name in (refused.remark or "")
        assert "damaged" in (await live.get("/readyz"))[1]
        await send(live, 1)


def index_of(live: LiveBroker) -> MessageIndex:
    """The room of the index."""
    return next(room for room in live.broker.rooms if isinstance(room, MessageIndex))


async def test_one_that_asks_for_much_leaves_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of records of one hash: another connection is answered between the slices."""
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    async with live_broker(tmp_path, max_hash_slot_num=100, max_index_num=10_000) as live:
        await send(live, 300, keys="BB")
        await send(live, 1, keys="Aa")
        order: list[str] = []

        async def asked(pool: ConnectionPool, name: str, key: str) -> Command:
            found = await ask(live, key, pool=pool)
            order.append(name)
            return found

        other = ConnectionPool()
        try:
            await ask(live, "Aa", pool=other)
            much = [asked(live.pool, "much", "C#") for _ in range(4)]
            *all_much, little = await asyncio.gather(*much, asked(other, "little", "Aa"))
        finally:
            await other.close()
        assert [record.body for record in records(little)] == [b"0"]
        assert {found.code for found in all_much} == {ResponseCode.QUERY_NOT_FOUND}
        assert order.index("little") == 0, "it had its second turn after one slice of theirs"


async def test_more_than_may_wait_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that asks for more at once than it may; another one is answered all the same."""
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    monkeypatch.setattr(questions, "WAITING_OF_ONE_MAX", 3)
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 100, keys="BB")
        await ask(live, "BB")
        codes = [found.code for found in await asyncio.gather(*(ask(live, "Aa") for _ in range(9)))]
        assert codes.count(ResponseCode.SYSTEM_BUSY) == 5, "one has its turn, three wait"
        assert codes.count(ResponseCode.QUERY_NOT_FOUND) == 4
        assert len(records(await ask(live, "BB", maxNum=3))) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"beginTimestamp": (1 << 63) - 1, "endTimestamp": -(1 << 63)},
        {"beginTimestamp": -(1 << 63), "endTimestamp": -(1 << 63)},
        {"maxNum": (1 << 31) - 1, "beginTimestamp": (1 << 63) - 1},
        {"maxNum": -(1 << 31)},
        {"key": ""},
        {"key": " "},
        {"key": "x" * 32_767},
        {"indexType": "?"},
    ],
)
async def test_absurd_questions_find_nothing(tmp_path: Path, more: dict[str, Any]) -> None:
    """And what is asked for as it should be is found after them."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 3)
        missed = await ask(live, **({"key": "k9"} | more))
        assert missed.code == ResponseCode.QUERY_NOT_FOUND, missed.remark
        assert missed.remark == "can not find message, maybe time range not correct"
        assert len(records(await ask(live, "all", beginTimestamp=-(1 << 63)))) == 3


async def test_an_idle_index_has_nothing_to_wait_for(tmp_path: Path) -> None:
    """What was sent is indexed without a question; then neither the loop nor the thread wakes."""
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 3)
        log, room = live.broker.context.writing.store.commit_log, index_of(live)
        await until(lambda: room.indexing.position == log.committed, what="all to be indexed")
        await until(lambda: room._timer is None, what="the timer to be gone")
        assert room._reach_at == log.committed, "the next commit is heard"


async def test_much_is_handed_over_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the caches have it."""
    monkeypatch.setattr(feature, "FOLLOW_INTERVAL_S", 3600.0)
    for name in ("FOLLOW_BYTES", "FOLLOW_BYTES_WITH_RUNS"):
        monkeypatch.setattr(feature, name, 1000)
    monkeypatch.setattr(feature, "EXPIRY_INTERVAL_S", 3600.0)  # which hands over as well
    async with live_broker(tmp_path, **SMALL) as live:
        await send(live, 20)
        room = index_of(live)
        await until(lambda: room.indexing.position > 1000, what="the first thousand bytes")
        assert room._timer is not None


async def test_what_came_while_it_was_switched_off_is_found_later(tmp_path: Path) -> None:
    """Off, on, and again: whatever the log has is indexed, once."""
    for round_, enabled in enumerate((False, True, False, True, True)):
        async with live_broker(tmp_path, message_index_enable=enabled, **SMALL) as live:
            await send(live, 3)
            found = await ask(live, "all", maxNum=64)
            if enabled:
                assert len(records(found)) == 3 * (round_ + 1)
                assert index_of(live).shown()["index"]["wholeFrom"] == 0
            else:
                assert found.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
