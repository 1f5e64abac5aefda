"""A message that cannot be unpacked is one message's trouble; what is unpacked is bounded."""

import asyncio
import logging

import msgspec
import pytest
from support.consumers import Seen
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    MessageModel,
    MessageQueue,
    PullConsumer,
    PullConsumerSettings,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.cluster.decoding import decode_pulled
from aerobee.remoting.codes import RequestCode, SysFlag
from aerobee.remoting.message.compression import CODECS, compress
from aerobee.remoting.message.record import Record, encode_record

QUEUE = MessageQueue("t", "broker-a", 0)
PULL = PullSettings(error_delay_ms=20, suspend_ms=200)
MIB = 1024 * 1024
BODIES = [b"0", b"1", b"3", b"4"]


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    """Five messages in the only queue of t; the third says that it is compressed, and is not."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    for at in range(5):
        broker.store("t", 0, b"%d" % at)
    change(broker, 2, sys_flag=SysFlag.COMPRESSED)
    return broker


def change(broker: FakeBroker, at: int, **fields: object) -> None:
    """Change what a broker has stored."""
    log = broker.log["t", 0]
    log[at] = msgspec.structs.replace(log[at], **fields)


def push(
    cluster: FakeCluster,
    seen: Seen,
    *,
    ordered: bool = False,
    model: MessageModel = MessageModel.CLUSTERING,
    folder: str = "",
) -> PushConsumer:
    """Return a push consumer from the first message on."""
    settings = PushSettings(pull=PULL, redeliver_delay_ms=20, offsets_folder=folder)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
        model=model,
    )
    member.subscribe("t", seen.handle)
    return member


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_push_consumer_puts_it_to_the_dead_letters(
    cluster: FakeCluster, broker: FakeBroker, caplog: pytest.LogCaptureFixture, ordered: bool
) -> None:
    """No handler sees it, all the others are handled, the offset goes past it; one error line."""
    seen = Seen()
    async with push(cluster, seen, ordered=ordered) as member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: len(broker.log["%DLQ%g", 0]) == 1)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
        assert member.statistics().queues[QUEUE].unreadable == 1
    assert sorted(seen.bodies) == BODIES
    assert broker.committed["g", "t", 0] == 5
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(errors) == 1 and "offset=2" in errors[0].getMessage()


async def test_the_offset_waits_until_the_broker_has_it(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    """While that cannot be reached nothing is committed past it; a copy is sent nowhere."""
    for _ in range(2):
        broker.script[RequestCode.CONSUMER_SEND_MSG_BACK].append(
            lambda connection, _: connection.close("the test wants it")
        )
    seen = Seen()
    async with push(cluster, seen) as member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: bool(broker.log["%DLQ%g", 0]))
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
    assert not broker.log["%RETRY%g", 0]
    assert broker.committed["g", "t", 0] == 5


@pytest.mark.parametrize("code", [2, 14, 215])
async def test_a_broker_that_is_busy_is_asked_again(
    cluster: FakeCluster, broker: FakeBroker, code: int
) -> None:
    """Its refusal says nothing of the message, which is among the dead letters later."""
    broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, code, times=2)
    seen = Seen()
    async with push(cluster, seen) as member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
    assert len(broker.log["%DLQ%g", 0]) == 1
    assert broker.committed["g", "t", 0] == 5


async def test_a_broker_that_refuses_it_stops_nobody(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    """It stays in its log, where the error line says."""
    broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, 1)
    seen = Seen()
    async with push(cluster, seen) as member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
    assert broker.committed["g", "t", 0] == 5


async def test_damage_is_not_copied(
    cluster: FakeCluster, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is not what was stored would look sound among the dead letters."""

    def encode(record: Record) -> bytes:
        data = encode_record(record)
        return data.replace(b"2", b"?") if record.queue_offset == 2 else data

    change(broker, 2, sys_flag=0)
    monkeypatch.setattr("support.stand_ins.fake_cluster.encode_record", encode)
    seen = Seen()
    async with push(cluster, seen) as member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
    assert not broker.log["%DLQ%g", 0]
    assert broker.committed["g", "t", 0] == 5


async def test_a_broadcasting_member_passes_it_over(
    cluster: FakeCluster, broker: FakeBroker, tmp_path: object
) -> None:
    """There are no dead letters of one member alone."""
    seen = Seen()
    member = push(cluster, seen, model=MessageModel.BROADCASTING, folder=str(tmp_path))
    async with member:
        await until(lambda: len(seen.bodies) == 4)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
    assert not broker.log["%DLQ%g", 0]


async def test_a_lite_consumer_passes_it_over(cluster: FakeCluster, broker: FakeBroker) -> None:
    """What is polled can be read; how many could not is counted."""
    consumer = LitePullConsumer(
        "g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST, settings=LitePullSettings()
    )
    consumer.subscribe("t")
    async with consumer:
        batch = await consumer.poll()
        assert [message.body for message in batch] == BODIES
        assert consumer.statistics()[QUEUE].unreadable == 1
    assert broker.committed["g", "t", 0] == 5


async def test_a_plain_pull_shows_it(cluster: FakeCluster, broker: FakeBroker) -> None:
    """Beside those that can be read, with the reason and its body as it was stored."""
    async with PullConsumer("g", namesrv=cluster.namesrv) as consumer:
        result = await consumer.pull(QUEUE, 0)
    assert [message.body for message in result.messages] == BODIES
    (bad,) = result.unreadable
    assert (bad.queue_offset, bad.body, result.next_offset) == (2, b"2", 5)
    assert bad.damage is not None and bad.damage.as_sent and "zlib" in bad.damage.reason


@pytest.mark.parametrize("codec", CODECS)
async def test_one_pull_unpacks_so_much_and_no_more(
    cluster: FakeCluster, broker: FakeBroker, codec: str
) -> None:
    """The rest comes with the next one, and a body over its own limit cannot be read."""
    for at in range(5):
        size = 3 * MIB if at == 3 else MIB
        flags = SysFlag.COMPRESSED | CODECS[codec]
        change(broker, at, body=compress(bytes(size), codec), sys_flag=flags)
    settings = PullConsumerSettings(body_bytes_max=2 * MIB, unpacked_bytes_max=2 * MIB)
    pulled: list[list[int]] = []
    offset = 0
    async with PullConsumer("g", namesrv=cluster.namesrv, settings=settings) as consumer:
        while offset < 5:
            result = await consumer.pull(QUEUE, offset)
            pulled.append([message.queue_offset for message in result.messages])
            offset = result.next_offset
    assert pulled == [[0, 1], [2, 4]]


def test_what_is_before_a_cut_is_handed_out() -> None:
    """The rest is pulled again; a record of which a part does not fit is stepped over."""
    whole = [encode_record(record(at)) for at in range(3)]
    for end in range(len(whole[0]), 2 * len(whole[0])):
        got = decode_pulled((whole[0] + whole[1])[:end], QUEUE)
        assert [message.queue_offset for message in got.messages] == [0]
        assert got.next_offset == (None if end == len(whole[0]) else 1)
    bad = bytearray(whole[1])
    bad[4] ^= 0xFF  # the magic code
    got = decode_pulled(whole[0] + bytes(bad) + whole[2], QUEUE)
    assert [message.queue_offset for message in got.messages] == [0, 2]
    assert [message.queue_offset for message in got.unreadable] == [1]


def record(at: int) -> Record:
    """Return a record of the queue."""
    return Record(
        topic="t",
        queue_id=0,
        queue_offset=at,
        position=1000 * at,
        body=b"body %d" % at,
        store_host=("127.0.0.1", 1),
    )


async def test_limits_count_what_is_held(cluster: FakeCluster) -> None:
    """Fetching stops by the bytes of unpacked bodies, however small they were on their way."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    for at in range(20):
        broker.store("t", 0, compress(bytes(MIB)))
        change(broker, at, sys_flag=SysFlag.COMPRESSED)
    go = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await go.wait()

    pull = PullSettings(batch_messages=1, queue_bytes_max=4 * MIB, suspend_ms=200)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(pull=pull),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: bool(member.queues()))
        await until(lambda: member.statistics().queues[QUEUE].bytes > 4 * MIB)
        assert member.statistics().queues[QUEUE].bytes == 5 * MIB
        go.set()
        await until(lambda: member.statistics().handlers.succeeded == 20)
        assert member.statistics().queues[QUEUE].bytes == 0


async def test_what_is_fetched_and_not_polled_is_bounded_in_bytes(cluster: FakeCluster) -> None:
    """Of all queues together."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        for queue in range(4):
            for _ in range(4):
                broker.store("t", queue, bytes(1000))
    settings = LitePullSettings(
        fetched_bytes_max=2_000,
        pull=PullSettings(batch_messages=1, flow_control_delay_ms=5, suspend_ms=200),
    )
    async with LitePullConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    ) as consumer:
        await consumer.assign(await consumer.fetch_queues("t"))
        got = 0
        while got < 32:
            assert sum(each.messages for each in consumer.statistics().values()) <= 3 + 8
            got += len(await consumer.poll(5_000))


async def test_polling_in_a_loop_lets_the_loop_live(cluster: FakeCluster) -> None:
    """Asked without any time to wait, there is something all the same as soon as it was fetched."""
    cluster.create("t", 1)
    cluster.brokers[0].store("t", 0, b"x")
    consumer = LitePullConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("t")
    async with consumer:
        for _ in range(100_000):
            if batch := await consumer.poll(0):
                break
        assert [message.body for message in batch] == [b"x"]
