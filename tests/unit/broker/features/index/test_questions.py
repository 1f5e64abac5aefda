"""Messages are found by their keys through the broker, as RocketMQ's clients ask (12)."""

from pathlib import Path

from support.disks.small_disk import remount, small_disk
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record
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


async def ask(live: LiveBroker, key: str, **more: str | int) -> Command:
    """Ask for the messages with a key."""
    header: dict[str, str | int] = {
        "topic": "t", "key": key, "maxNum": 32, "beginTimestamp": 0,
        "endTimestamp": (1 << 63) - 1,
    }  # fmt: skip
    return await live.ask(RequestCode.QUERY_MESSAGE, header | more)


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
            assert feature.overview()["index"]["position"] > 0
            newest = records(await ask(live, "all", maxNum=64))[-1]
        kept = read_checkpoint(Files(), tmp_path / "store")
        assert kept.index_timestamp == newest.store_timestamp, "RocketMQ keeps all of it"
    async with live_broker(tmp_path, **SMALL) as live:
        await ask(live, "all")
        assert not live.broker.store.aborted


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
