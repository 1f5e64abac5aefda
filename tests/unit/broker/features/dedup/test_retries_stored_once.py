"""A message whose unique key its topic has: stored once, and answered as the first one was."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.features.dedup import (
    batch,
    known,
    request_all,
    send,
    set_clock,
    stored,
    topic_command,
    unique_key,
    watch,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command

from aerobee.broker.app import Broker
from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque

DUPLICATE = {"DUPLICATE": "true"}
KEY = unique_key(1)
ODD_KEYS = ["AAAA0001", "7f000001" + "a" * 24, "F" * 56]
"""Too short, not as Java writes it, and of a client with an IPv6 address."""


@pytest.fixture(params=["compiled", "python"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """A broker, and one without compiled code."""
    fast = "true" if request.param == "compiled" else "false"
    async with running_broker(tmp_path, compiledFastPath=fast) as running:
        yield running


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A client; topic T stores a retry once, and has passed its checks for queue 0."""
    async with await RawPeer.connect(broker.port) as connected:
        await watch(connected)
        assert (await connected.request(send(unique_key(0)))).code == ResponseCode.SUCCESS
        yield connected


@pytest.fixture
async def firsts(broker: Broker) -> TopicFirsts:
    """What the broker knows."""
    return await known(broker)


@pytest.mark.parametrize("key", [KEY, *ODD_KEYS])
async def test_a_retry_gets_the_first_ones_answer(peer: RawPeer, key: str) -> None:
    """Its id, queue and offset, though it names another queue; whatever client made the key."""
    first = await peer.request(send(key, b"first"))
    again = await peer.request(send(key, b"again", queue_id=2))
    assert first.code == again.code == ResponseCode.SUCCESS
    assert "DUPLICATE" not in first.ext
    assert again.ext == {**first.ext, **DUPLICATE}
    assert [record.body for record in await stored(peer)] == [b"body", b"first"]


async def test_keys_are_compared_in_full(peer: RawPeer) -> None:
    """A key that differs in its last digit, or in the case of one, is another message."""
    keys = [KEY, KEY[:-1] + "2", "a" + KEY[1:], "A" + KEY[1:]]
    for key in keys:
        assert "DUPLICATE" not in (await peer.request(send(key))).ext
    assert len(await stored(peer)) == 1 + len(keys)


async def test_without_a_key_nothing_is_a_duplicate(peer: RawPeer) -> None:
    """The broker makes one for each such message."""
    for _ in range(2):
        reply = await peer.request(send_command(properties="TAGS\x01a\x02"))
        assert "DUPLICATE" not in reply.ext
    assert len(await stored(peer)) == 3


async def test_topics_do_not_know_each_others_keys(peer: RawPeer) -> None:
    """One message object can be sent to two topics; one that does not ask stores all."""
    await watch(peer, "Other")
    for topic in ("T", "Other", "Plain", "Plain"):
        assert "DUPLICATE" not in (await peer.request(send(KEY, topic=topic))).ext
    assert len(await stored(peer, "Plain")) == 2


async def test_one_read_with_both_stores_one(peer: RawPeer) -> None:
    """The first is not in the log yet when the retry is looked at."""
    first, again = send(KEY), send(KEY, queue_id=1)
    replies = await request_all(peer, [first, again])
    assert replies[1].ext == {**replies[0].ext, **DUPLICATE}
    assert len(await stored(peer)) == 2


async def test_a_batch_that_comes_again_is_stored_once(peer: RawPeer) -> None:
    """The answer has the ids, the queue and the first offset of the first time."""
    keys = [unique_key(number) for number in range(1, 4)]
    first = await peer.request(batch(keys))
    again = await peer.request(batch(keys, queue_id=3))
    assert first.ext["msgId"].count(",") == 2
    assert again.ext == {**first.ext, **DUPLICATE}
    assert len(await stored(peer)) == 4


async def test_of_a_mixed_batch_the_new_ones_are_stored(peer: RawPeer) -> None:
    """In a row; the ids come in the order of the request, queue and offset are those of the new."""
    one, two, three, four = (unique_key(number) for number in range(1, 5))
    first = await peer.request(send(two))
    mixed = await peer.request(batch([one, two, three, one], queue_id=1))
    ids = mixed.ext["msgId"].split(",")
    assert (ids[1], ids[3]) == (first.ext["msgId"], ids[0])
    assert (mixed.ext["queueId"], mixed.ext["queueOffset"]) == ("1", "0")
    assert mixed.ext["DUPLICATE"] == "true"
    new = [record for record in await stored(peer) if record.queue_id == 1]
    assert [(record.body, record.queue_offset) for record in new] == [
        (one.encode(), 0), (three.encode(), 1),
    ]  # fmt: skip
    assert "DUPLICATE" not in (await peer.request(batch([four], queue_id=1))).ext


async def test_a_delayed_message_waits_once(peer: RawPeer) -> None:
    """The retry is answered with where the first one waits, and is delivered by that one alone."""
    delay = "DELAY\x011\x02"
    first = await peer.request(send(KEY, more=delay, queue_id=1))
    again = await peer.request(send(KEY, more=delay, queue_id=3))
    assert first.ext["queueId"] == "1"
    assert again.ext == {**first.ext, **DUPLICATE}
    assert len(await stored(peer, "SCHEDULE_TOPIC_XXXX", queues=1)) == 1


async def test_what_a_group_failed_to_consume_comes_again(peer: RawPeer) -> None:
    """A message that is sent back has the key of the first, and is stored again."""
    first = await peer.request(send(KEY))
    ext = {"offset": str(int(first.ext["msgId"][-16:], 16)), "group": "g", "delayLevel": "1"}
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    for _ in range(2):
        reply = await peer.request(Command(code=code, ext=ext, opaque=next_opaque()))
        assert reply.code == ResponseCode.SUCCESS
    assert len(await stored(peer, "SCHEDULE_TOPIC_XXXX", queues=1)) == 2


async def test_the_attribute_counts_at_once(peer: RawPeer, firsts: TopicFirsts) -> None:
    """Switched off, everything is stored; switched on again, what came before is not known."""
    await peer.request(send(KEY))
    assert (await peer.request(topic_command("T", "-aerobee.dedup.seconds"))).code == 0
    assert "DUPLICATE" not in (await peer.request(send(KEY))).ext
    assert not firsts.watches("T")
    await watch(peer)
    assert "DUPLICATE" not in (await peer.request(send(KEY))).ext
    assert (await peer.request(send(KEY))).ext["DUPLICATE"] == "true"
    assert len(await stored(peer)) == 4


async def test_a_topic_that_is_made_anew_knows_nothing(peer: RawPeer) -> None:
    """What its earlier life had is gone with it."""
    await peer.request(send(KEY))
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    reply = await peer.request(Command(code=code, ext={"topic": "T"}, opaque=next_opaque()))
    assert reply.code == ResponseCode.SUCCESS
    await watch(peer)
    assert "DUPLICATE" not in (await peer.request(send(KEY))).ext
    assert len(await stored(peer)) == 1


@pytest.mark.parametrize(("later_ms", "duplicate"), [(60_000, True), (60_001, False)])
async def test_the_window_ends_to_the_millisecond(
    broker: Broker, peer: RawPeer, firsts: TopicFirsts, later_ms: int, duplicate: bool
) -> None:
    """A first counts for as long as the attribute says, and no longer."""
    set_clock(broker, firsts, now_ms := firsts.now_ms() + 1000)
    await peer.request(send(KEY))
    set_clock(broker, firsts, now_ms + later_ms)
    again = await peer.request(send(KEY))
    assert ("DUPLICATE" in again.ext) is duplicate


async def test_a_clock_that_is_set_back_forgets_nothing(
    broker: Broker, peer: RawPeer, firsts: TopicFirsts
) -> None:
    """Keys are known for longer then; after a step forward, those of before are too old."""
    set_clock(broker, firsts, now_ms := firsts.now_ms() + 1000)
    await peer.request(send(KEY))
    set_clock(broker, firsts, now_ms - 3_600_000)
    assert "DUPLICATE" in (await peer.request(send(KEY))).ext
    await peer.request(send(unique_key(2)))
    assert "DUPLICATE" in (await peer.request(send(unique_key(2)))).ext
    set_clock(broker, firsts, now_ms + 3_600_000)
    assert "DUPLICATE" not in (await peer.request(send(KEY))).ext


async def test_a_first_that_is_no_more_does_not_count(peer: RawPeer, firsts: TopicFirsts) -> None:
    """What is known is believed only if the log has that message: a lost one is stored again."""
    number = firsts.numbers["T"]
    first = await peer.request(send(KEY))
    position = int(first.ext["msgId"][-16:], 16)
    firsts.put("T", unique_key(2), position, firsts.now_ms())  # another message is there
    firsts.put("T", unique_key(3), position + 1, firsts.now_ms())  # none is
    for key in (unique_key(2), unique_key(3)):
        assert "DUPLICATE" not in (await peer.request(send(key))).ext
        assert "DUPLICATE" in (await peer.request(send(key))).ext
    assert firsts.keys.state(number)[0] == 4


@pytest.mark.parametrize(
    "value", ["-1", "86401", "1.5", "many", "", "9" * 30, "\N{ARABIC-INDIC DIGIT ONE}"]
)
async def test_other_values_are_refused(peer: RawPeer, value: str) -> None:
    """With RocketMQ's words for a number out of its range."""
    reply = await peer.request(topic_command("New", f"+aerobee.dedup.seconds={value}"))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "value is not in range" in (reply.remark or "")


async def test_a_window_must_be_shorter_than_retention(tmp_path: Path) -> None:
    """Else a first would be gone before its window is over."""
    async with (
        running_broker(tmp_path, fileReservedTime="1") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        refused = await peer.request(topic_command("T", "+aerobee.dedup.seconds=3600"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "fileReservedTime" in (refused.remark or "")
        await watch(peer, "T", 3599)


async def test_switched_off_the_attribute_is_refused(tmp_path: Path) -> None:
    """And the feature is not even there; a topic that has it says so at the start."""
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer)
        await peer.request(send(KEY))
    async with (
        running_broker(tmp_path, dedupEntriesMax="0") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert broker.context.writing.firsts is None
        refused = await peer.request(topic_command("U", "+aerobee.dedup.seconds=1"))
        assert "dedupEntriesMax" in (refused.remark or "")
        assert "DUPLICATE" not in (await peer.request(send(KEY))).ext


async def test_where_there_is_no_more_room_the_oldest_goes(tmp_path: Path) -> None:
    """The window shrinks, and a metric says how far; nothing is refused."""
    async with (
        running_broker(tmp_path, dedupEntriesMax="10") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer)
        firsts = await known(broker)
        set_clock(broker, firsts, begin_ms := firsts.now_ms() + 1000)
        assert firsts.window_ms("T") == 60_000
        for number in range(11):
            set_clock(broker, firsts, begin_ms + number * 100)
            assert (await peer.request(send(unique_key(number)))).code == ResponseCode.SUCCESS
        assert firsts.window_ms("T") == 1000
        assert "DUPLICATE" in (await peer.request(send(unique_key(1)))).ext
        assert "DUPLICATE" not in (await peer.request(send(unique_key(0)))).ext


async def test_with_sync_flush_the_answer_waits_for_the_first(tmp_path: Path) -> None:
    """A retry is acknowledged when the disk has the first."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer)
        await peer.request(send(unique_key(0)))
        replies = await request_all(peer, [send(KEY), send(KEY)])
        assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 2
        assert broker.store.commit_log.flushed_position == broker.store.commit_log.position
        assert len(await stored(peer)) == 2
