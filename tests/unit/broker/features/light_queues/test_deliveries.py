"""What waits before it is a message for light queues: timers, delays, halves, and retries of it."""

from pathlib import Path

import pytest
from support.features.light_queues import A, B, bodies, light_broker, records, send
from support.servers.live_broker import LiveBroker
from support.waiting import until

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import parse_properties
from aerobee.storage.verify import verify

WAITS = {"timer": {"TIMER_DELAY_MS": "1200"}, "delay level": {"DELAY": "1"}}
OUT = "INNER_MULTI_QUEUE_OFFSET"


async def half(live: LiveBroker, body: bytes, *names: str) -> Command:
    """Send a half message for light queues."""
    return await send(live, body, *names, TRAN_MSG="true", PGROUP="p")


async def commit(live: LiveBroker, sent: Command) -> Command:
    """Commit a half message by what its sender was told."""
    fields = {
        "topic": "t", "producerGroup": "p", "tranStateTableOffset": sent.ext["queueOffset"],
        "commitLogOffset": int(sent.ext["msgId"][-16:], 16), "commitOrRollback": 8,
        "fromTransactionCheck": "false", "msgId": "K1", "transactionId": "K1",
    }  # fmt: skip
    return await live.ask(RequestCode.END_TRANSACTION, fields)


def offsets(properties: bytes) -> tuple[str | None, str | None]:
    """Which light queues a record names, and its offsets in them."""
    pairs = parse_properties(properties)
    return pairs.get("INNER_MULTI_DISPATCH"), pairs.get(OUT)


@pytest.mark.parametrize("waits", [*WAITS])
async def test_a_message_that_waited_gets_its_entries_when_it_is_due(
    tmp_path: Path, waits: str
) -> None:
    """Not before, and behind what came meanwhile, in its own topic and in each light queue."""
    async with light_broker(tmp_path) as live:
        reply = await send(live, b"late", A, B, **WAITS[waits], **{OUT: "7,8"})
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        assert await bodies(live, A) == await bodies(live, "t") == []
        await send(live, b"soon", A)
        assert await bodies(live, A) == [b"soon"]
        await until(lambda: live.broker.store.queue("t", 0).max_offset == 2)
        for queue in ("t", A):
            assert await bodies(live, queue) == [b"soon", b"late"]
        (record,) = await records(live, B)
        assert (record.topic, record.queue_offset) == ("t", 1)
        assert offsets(record.properties) == (f"{A},{B}", "1,0")
        live.broker.store.commit_log.commit()
        live.broker.store.abandon()
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"soon", b"late"]
        assert await bodies(live, B) == [b"late"]
    assert not verify(live.broker.settings.store).problems


@pytest.mark.parametrize("waits", [*WAITS])
async def test_what_cannot_be_filled_is_refused_at_the_send(tmp_path: Path, waits: str) -> None:
    """When it is due nobody is there to hear of it."""
    async with light_broker(tmp_path, max_lmq_consume_queue_num=1) as live:
        await send(live, b"one", A)
        refused = await send(live, b"x", "t2", **WAITS[waits])
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        full = await send(live, b"x", B, **WAITS[waits])
        assert full.code == ResponseCode.LMQ_QUOTA_EXCEEDED
        long = await send(live, b"x", A, **WAITS[waits], user="v" * 32_580)
        assert long.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("waits", [*WAITS, "transaction"])
async def test_what_cannot_be_filled_any_more_is_delivered_all_the_same(
    tmp_path: Path, waits: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Into its topic, and where there is room; the log says which light queues it is missing in."""
    async with light_broker(tmp_path, max_lmq_consume_queue_num=2) as live:
        if waits == "transaction":
            sent = await half(live, b"late", A, B)
        else:
            sent = await send(live, b"late", A, B, **WAITS[waits])
        assert sent.code == ResponseCode.SUCCESS
        await send(live, b"one", "%LMQ%c", A)  # now there is no room for the other
        if waits == "transaction":
            assert (await commit(live, sent)).code == ResponseCode.SUCCESS
        await until(lambda: live.broker.store.queue("t", 0).max_offset == 2)
        assert await bodies(live, A) == [b"one", b"late"]
        assert live.broker.store.find_queue(B, 0) is None
        assert offsets((await records(live, "t"))[1].properties) == (f"{A},{B}", "1,")
        assert f"light_entries_left_out topic=t names={B}" in caplog.text
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"one", b"late"]
        assert live.broker.store.find_queue(B, 0) is None


async def test_a_committed_message_gets_its_entries(tmp_path: Path) -> None:
    """Its half has none; its offsets are those at the commit."""
    async with light_broker(tmp_path) as live:
        sent = await half(live, b"mine", A, B)
        await send(live, b"other", A)
        assert await bodies(live, A) == [b"other"]
        assert (await commit(live, sent)).code == ResponseCode.SUCCESS
        assert await bodies(live, A) == [b"other", b"mine"]
        assert offsets((await records(live, B))[0].properties) == (f"{A},{B}", "1,0")


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}], ids=["at once", "later"])
async def test_a_retry_gets_no_second_entry(tmp_path: Path, more: dict[str, str]) -> None:
    """In topics that store a retry once light queues have it once, too."""
    async with light_broker(tmp_path) as live:
        topic = {
            "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
            "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
            "attributes": "+aerobee.dedup.seconds=60",
        }  # fmt: skip
        assert (await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)).code == 0
        for number in range(3):
            reply = await send(live, b"one", A, B, **more)
            assert ("DUPLICATE" in reply.ext) == bool(number)
            await until(lambda: live.broker.store.queue("t", 0).max_offset == 1)
        assert await bodies(live, A) == await bodies(live, B) == [b"one"]


@pytest.mark.parametrize(("level", "topic"), [(1, "%RETRY%g"), (-1, "%DLQ%g")])
async def test_what_comes_again_for_a_group_is_for_no_light_queue(
    tmp_path: Path, level: int, topic: str
) -> None:
    """A message that a group failed to consume has its entries."""
    async with light_broker(tmp_path) as live:
        sent = await send(live, b"one", A)
        fields = {
            "offset": int(sent.ext["msgId"][-16:], 16), "group": "g", "delayLevel": level,
            "originTopic": "t",
        }  # fmt: skip
        assert (await live.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)).code == 0
        await until(lambda: live.broker.store.queue(topic, 0).max_offset == 1)
        assert await bodies(live, A) == [b"one"]
        found = live.broker.store.queue(topic, 0).entry(0)
        assert OUT.encode() not in bytes(live.broker.store.record_at(found[0]) or b"")
