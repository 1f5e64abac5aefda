"""A batch of a batch queue is one record with as many offsets as messages, after any stop."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.batch_queues import feature
from aerobee.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, iter_records
from aerobee.storage.disk.files import Files
from aerobee.storage.dump import dump
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles
from aerobee.storage.repair import repair
from aerobee.storage.verify import verify

TOPIC, GROUP = "b", "g"
SEND = {"a": "p", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
FIELDS = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
    "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip


async def create(live: LiveBroker, attributes: str = "+queue.type=BatchCQ") -> Command:
    """Make the topic, and let a client be its consumer."""
    made = await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS | {"attributes": attributes})
    await join(live)
    return made


async def join(live: LiveBroker) -> None:
    consumer = ConsumerData(
        group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC, sub_string="*")]
    )
    beat = HeartbeatData(client_id="c", consumer_data_set=[consumer])
    await live.ask(RequestCode.HEART_BEAT, body=beat)


async def send_batch(live: LiveBroker, *bodies: bytes, key: str = "K", **more: str) -> Command:
    """Send a batch with a key of its own, as clients from 5.0 on do."""
    texts = [f"UNIQ_KEY\x01{key}{n}\x02".encode() for n in range(len(bodies))]
    body = encode_batch(
        BatchedMessage(0, one, text) for one, text in zip(bodies, texts, strict=True)
    )
    properties = {"UNIQ_KEY": key, **more} if key else more
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    fields = SEND | {"i": text, "m": "true"}
    return await live.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)


async def send(live: LiveBroker, body: bytes, **more: str) -> Command:
    """Send a single message."""
    text = "".join(f"{key}\x01{value}\x02" for key, value in more.items())
    return await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"i": text}, body)


async def pulled(live: LiveBroker, offset: int = 0, most: int = 32) -> tuple[list[Record], int]:
    """Pull; return the records, and where the next pull begins."""
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "queueOffset": offset,
        "maxMsgNums": most, "sysFlag": 0, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 0,
    }  # fmt: skip
    reply = await live.ask(RequestCode.PULL_MESSAGE, fields)
    records = list(iter_records(reply.body)) if reply.code == 0 else []
    return records, int(reply.ext["nextBeginOffset"])


async def bases(live: LiveBroker) -> list[int]:
    """Pull from the beginning to the end; return the first offset of each record."""
    found: list[int] = []
    offset, (_, end) = 0, await ends(live)
    while offset < end:
        records, offset = await pulled(live, offset)
        found += [record.queue_offset for record in records]
    return found


async def ends(live: LiveBroker) -> tuple[int, int]:
    """Return the queue's min and max offset."""
    fields = {"topic": TOPIC, "queueId": 0}
    low = await live.ask(RequestCode.GET_MIN_OFFSET, fields)
    high = await live.ask(RequestCode.GET_MAX_OFFSET, fields)
    return int(low.ext["offset"]), int(high.ext["offset"])


def units(root: Path) -> list[tuple[int, int]]:
    """Return first offset and messages of each unit."""
    found = UnitFiles(Files(), root, TOPIC, 0).read()
    return [(unit.first_offset, unit.messages) for _, unit in found]


async def fill(live: LiveBroker) -> None:
    """Store two batches with a message between them."""
    await create(live)
    for sent in (
        await send_batch(live, b"a", b"b", b"c", key="K1"),
        await send(live, b"d", UNIQ_KEY="S"),
        await send_batch(live, b"e", b"f", key="K2"),
    ):
        assert sent.code == ResponseCode.SUCCESS, sent


async def test_batch_is_one_record(tmp_path: Path) -> None:
    """Its reply names the batch, its record says how many messages it has and from where on."""
    async with live_broker(tmp_path) as live:
        await create(live)
        await send(live, b"x", UNIQ_KEY="S")
        sent = await send_batch(live, b"a", b"b", b"c", key="K1")
        assert sent.code == 0
        assert (sent.ext["batchUniqId"], sent.ext["queueOffset"]) == ("K1", "1")
        assert "," not in sent.ext["msgId"]
        records, following = await pulled(live, 1)
        assert (len(records), following, await ends(live)) == (1, 4, (0, 4))
        properties = parse_properties(records[0].properties)
        assert records[0].sys_flag & 0xC0 == 0xC0
        assert (properties["INNER_NUM"], properties["INNER_BASE"]) == ("3", "1")
        assert properties["UNIQ_KEY"] == "K1"


async def test_pulls_begin_with_the_record_that_holds_the_offset(tmp_path: Path) -> None:
    """Each record comes once; limits count messages; no pull leaves any out."""
    async with live_broker(tmp_path) as live:
        await fill(live)
        for offset, most, bases, following in (
            (0, 32, [0, 3, 4], 6), (2, 32, [0, 3, 4], 6), (1, 1, [0], 3), (0, 3, [0], 3),
            (0, 4, [0, 3], 4), (3, 1, [3], 4), (5, 32, [4], 6), (4, 1, [4], 6),
        ):  # fmt: skip
            records, behind = await pulled(live, offset, most)
            assert ([each.queue_offset for each in records], behind) == (bases, following)
        for _ in range(3):  # nor does a pull that comes again
            assert (await pulled(live, 0, 3))[1] == 3


async def test_large_batch_spans_files_and_reads(tmp_path: Path) -> None:
    """A batch with more messages than a queue's file, or a read, has entries for."""
    async with live_broker(tmp_path, mapped_file_size_consume_queue=20 * 64) as live:
        await create(live)
        await send_batch(live, *[b""] * 1000, key="K1")
        await send(live, b"z")
        assert [r.queue_offset for r in (await pulled(live, 0, 32))[0]] == [0]
        records, following = await pulled(live, 999, 32)
        assert ([r.queue_offset for r in records], following) == ([0, 1000], 1001)
        assert (await pulled(live, 1000))[1] == 1001
    assert verify(live.broker.settings.store).problems == []


UNITS, ENTRIES, PROOFS = "batchconsumequeue", "aerobee.batches", ("aerobee.progress", "checkpoint")


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param((), id="as it was"),
        pytest.param((UNITS,), id="without units"),
        pytest.param((ENTRIES,), id="by its units"),
        pytest.param((UNITS, ENTRIES, *PROOFS), id="from the log"),
        pytest.param((UNITS, ENTRIES), id="mended"),
    ],
)
async def test_queues_are_there_after_a_stop(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """Whatever of the derived files is lost, offsets are what they were, and go on."""
    async with live_broker(tmp_path) as live:
        await fill(live)
        root = live.broker.settings.store_path_root_dir
    assert units(root) == [(0, 3), (3, 1), (4, 2)]
    assert not (root / "consumequeue" / TOPIC).exists()
    assert verify(live.broker.settings.store).problems == []
    for name in lost:
        shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()
    async with live_broker(tmp_path) as live:
        await join(live)
        assert await ends(live) == (0, 6)
        sent = await send_batch(live, b"g", b"h", key="K3")
        assert sent.ext["queueOffset"] == "6"
        assert await bases(live) == [0, 3, 4, 6]
    assert units(root) == [(0, 3), (3, 1), (4, 2), (6, 2)]
    assert verify(live.broker.settings.store).problems == []


async def test_killed_broker_loses_nothing(tmp_path: Path) -> None:
    """Entries and units that were in memory alone are made again from the log."""
    async with live_broker(tmp_path) as live:
        await fill(live)
        shutil.copytree(
            live.broker.settings.store_path_root_dir, tmp_path / "killed", symlinks=True
        )
        root = live.broker.settings.store_path_root_dir
    shutil.rmtree(root)
    shutil.move(tmp_path / "killed", root)
    async with live_broker(tmp_path) as live:
        await join(live)
        assert await ends(live) == (0, 6)
        assert await bases(live) == [0, 3, 4]
        await until(lambda: units(root) == [(0, 3), (3, 1), (4, 2)])
    assert verify(live.broker.settings.store).problems == []


async def test_deleted_topic_takes_both_kinds_of_files(tmp_path: Path) -> None:
    """A topic that is made again begins with offset 0, as whichever type it is made."""
    async with live_broker(tmp_path) as live:
        await fill(live)
        root = live.broker.settings.store_path_root_dir
        await until(lambda: len(units(root)) == 3)
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert not (root / "aerobee.batches" / TOPIC).exists()
        await until(lambda: not (root / "batchconsumequeue" / TOPIC).exists())
        await create(live, "")
        sent = await send_batch(live, b"a", b"b", key="K1")
        assert ("batchUniqId" in sent.ext, sent.ext["queueOffset"]) == (False, "0")
        assert [r.queue_offset for r in (await pulled(live))[0]] == [0, 1]
    assert verify(live.broker.settings.store).problems == []


async def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """The type stays; INNER_NUM is the broker's; a batch has no delay and is no half message."""
    async with live_broker(tmp_path) as live:
        both = await create(live, "+queue.type=BatchCQ,+cleanup.policy=COMPACTION")
        assert "exclude each other" in (both.remark or "")
        await create(live)
        changed = await live.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS | {"attributes": "+queue.type=SimpleCQ"}
        )
        assert "unchangeable" in (changed.remark or "")
        illegal = ResponseCode.MESSAGE_ILLEGAL
        assert (await send(live, b"x", INNER_NUM="3")).code == illegal
        assert (await send_batch(live, b"x", INNER_NUM="3")).code == illegal
        assert (await send_batch(live, b"x", DELAY="3")).code == illegal
        assert (await send_batch(live, b"x", TRAN_MSG="true")).code == illegal
        assert (await send_batch(live, b"x", TIMER_DELAY_SEC="3")).code == illegal
        assert (await send_batch(live, *[b""] * 32_768)).code == illegal
        assert await ends(live) == (0, 0)


async def test_old_clients_batches_are_single_messages(tmp_path: Path) -> None:
    """Without a key of its own a batch is what it is on any topic."""
    async with live_broker(tmp_path) as live:
        await create(live)
        sent = await send_batch(live, b"a", b"b", key="")
        assert sent.ext["msgId"].count(",") == 1
        assert [r.queue_offset for r in (await pulled(live))[0]] == [0, 1]
    assert units(live.broker.settings.store_path_root_dir) == [(0, 1), (1, 1)]


async def test_time_finds_the_batch(tmp_path: Path) -> None:
    """A time stands for the first message of the batch that was stored then."""
    async with live_broker(tmp_path) as live:
        await fill(live)
        records, _ = await pulled(live)
        for record in records:
            fields = {"topic": TOPIC, "queueId": 0, "timestamp": record.store_timestamp}
            found = await live.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
            stamps = [
                r.queue_offset for r in records if r.store_timestamp >= record.store_timestamp
            ]
            assert int(found.ext["offset"]) == stamps[0]


async def test_a_batch_that_comes_again_is_answered_as_the_first(tmp_path: Path) -> None:
    """Stored once; the answer names the batch, by which its client knows it."""
    async with live_broker(tmp_path) as live:
        await create(live, "+queue.type=BatchCQ,+aerobee.dedup.seconds=100")
        first = await send_batch(live, b"a", b"b", b"c", key="A" * 32)
        again = await send_batch(live, b"a", b"b", b"c", key="A" * 32)
        assert again.ext == first.ext | {"DUPLICATE": "true"}
        assert again.ext["batchUniqId"] == "A" * 32
        assert await ends(live) == (0, 3)


async def test_busy_queues_keep_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues get their units in turn, whichever have new messages at every look."""
    monkeypatch.setattr(feature, "QUEUES_PER_LOOK", 1)
    monkeypatch.setattr(feature, "LOOK_S", 0.01)
    async with live_broker(tmp_path) as live:
        await create(live)
        fields = FIELDS | {"writeQueueNums": 2, "readQueueNums": 2}
        assert (await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        await send(live, b"busy")
        await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"e": 1}, b"quiet")
        store = live.broker.settings.store_path_root_dir
        quiet = UnitFiles(Files(), store, TOPIC, 1)
        for _ in range(3000):
            await send(live, b"busy")
            live.broker.store.queues.get(TOPIC, 0).write_out()
            live.broker.store.queues.get(TOPIC, 1).write_out()
            if list(quiet.read()):
                break
            await asyncio.sleep(0)
        else:
            pytest.fail("the quiet queue has no unit")


async def test_tools_know_the_files(tmp_path: Path) -> None:
    """A unit that contradicts the entries is a problem; repair leaves a sound store as it is."""
    async with live_broker(tmp_path) as live:
        await fill(live)
    root, settings = live.broker.settings.store_path_root_dir, live.broker.settings.store
    path = next((root / "batchconsumequeue" / TOPIC / "0").iterdir())
    assert "offset 0 to 2" in next(iter(dump(path)))
    shown = [line.split() for line in dump(next((root / "commitlog").iterdir())) if "K1" in line]
    assert [line[:2] for line in shown[1:]] == [["offset", "0"], ["offset", "1"], ["offset", "2"]]
    assert [line[-1] for line in shown[1:]] == ["b'a'", "b'b'", "b'c'"]
    repair(settings)
    assert verify(settings).problems == []
    with path.open("r+b") as file:
        file.seek(7)
        file.write(b"\x01")
    assert verify(settings).problem_count
