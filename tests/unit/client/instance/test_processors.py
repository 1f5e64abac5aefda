"""What brokers ask of a client: resets, progress, insight, and a message to be handled at once."""

import asyncio

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PullSettings,
    ReceivedMessage,
)
from aerobee.remoting import bodies
from aerobee.remoting.bodies import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatusBody,
    QueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import encode_record

A0 = MessageQueue("t", "broker-a", 0)


def wire(queue: MessageQueue) -> bodies.QueueBody:
    """Return a queue as bodies have it."""
    return bodies.QueueBody(*queue)


async def ask(
    broker: FakeBroker, code: int, ext: dict[str, str], body: bytes = b"", group: str = "g"
) -> Command:
    """Let a broker ask the member of a group."""
    connection = next(iter(broker.members[group]))
    return await connection.call(Command(code, ext, body), 5)


def reset(offset: int, *, for_c: bool) -> bytes:
    """Return the body of a reset of A0, and of a queue that is not ours."""
    if for_c:
        queue = QueueOffset(topic="t", broker_name="broker-a", queue_id=0, offset=offset)
        return encode_body(ResetOffsetBodyForC(offset_table=[queue]))
    other = A0._replace(queue_id=9)
    table = {wire(A0): offset, wire(other): 1, wire(A0._replace(topic="u")): 2}
    return encode_body(ResetOffsetBody(offset_table=table), strict=False)


RESET = {"topic": "t", "group": "g", "timestamp": "0", "isForce": "true"}


@pytest.mark.parametrize("for_c", [False, True])
async def test_a_reset_takes_a_queue_elsewhere(cluster: FakeCluster, for_c: bool) -> None:
    """Back to messages that were handled; the offset is stored, and nothing else is."""
    cluster.create("t", 1)
    fill(cluster, "t", 20)
    seen = Seen()
    broker = cluster.brokers[0]
    async with consumer(cluster, seen.handle) as member:
        await until(lambda: len(seen.messages) == 20)
        await ask(broker, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RESET, reset(7, for_c=for_c))
        await until(lambda: len(seen.messages) == 23)
        assert [each.queue_offset for each in seen.messages[20:]] == [7, 8, 9]
        assert {each.queue for each in seen.messages[20:]} == {A0}
        await until(lambda: len(member.queues()) == 2)
    assert broker.committed["g", "t", 0] == 10


async def test_a_reset_lets_running_handlers_end(cluster: FakeCluster) -> None:
    """What they did counts for nothing, and what had not begun is dropped."""
    cluster.create("t", 1)
    fill(cluster, "t", 10)
    open_, begun = asyncio.Event(), list[int]()

    async def handle(message: ReceivedMessage) -> None:
        begun.append(message.queue_offset)
        await open_.wait()

    broker = cluster.brokers[0]
    async with consumer(cluster, handle) as member:
        await until(lambda: len(begun) == 10)
        asked = asyncio.ensure_future(
            ask(broker, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RESET, reset(5, for_c=False))
        )
        await until(lambda: A0 not in member.queues())
        assert not asked.done()
        open_.set()
        await asked
        assert broker.committed["g", "t", 0] == 5
    assert broker.committed["g", "t", 0] == 5


async def test_a_polling_member_is_reset_too(cluster: FakeCluster) -> None:
    """What was fetched and not polled is dropped."""
    cluster.create("t", 1)
    fill(cluster, "t", 40)
    settings = LitePullSettings(pull=PullSettings(batch_messages=5), auto_commit=False)
    member = LitePullConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t")
    async with member:
        await until(lambda: A0 in member.assignment())
        await until(lambda: member.statistics()[A0].messages == 20)
        broker = cluster.brokers[0]
        await ask(broker, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RESET, reset(17, for_c=False))
        await until(lambda: member.statistics()[A0].messages == 3)
        batches = [await member.poll() for _ in range(5)]
        assert [17, 18, 19] in [[each.queue_offset for each in batch] for batch in batches]
        assert broker.committed["g", "t", 0] == 17


async def test_resets_of_unknown_groups_do_nothing(cluster: FakeCluster) -> None:
    """Nor does one without a body."""
    cluster.create("t", 1)
    fill(cluster, "t", 10)
    seen = Seen()
    broker = cluster.brokers[0]
    async with consumer(cluster, seen.handle):
        await until(lambda: len(seen.messages) == 10)
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert (await ask(broker, code, RESET)).code == ResponseCode.SUCCESS
        other = {**RESET, "group": "h"}
        assert (await ask(broker, code, other, reset(0, for_c=False))).code == ResponseCode.SUCCESS
        assert (await ask(broker, code, RESET, b"{")).code == ResponseCode.SYSTEM_ERROR
    assert len(seen.messages) == 10


async def test_progress_is_told_by_queue(cluster: FakeCluster) -> None:
    """Of one topic; nothing of a group that is not here."""
    cluster.create("t", 1)
    fill(cluster, "t", 10)
    seen = Seen()
    broker = cluster.brokers[0]
    async with consumer(cluster, seen.handle) as member:
        await until(lambda: len(seen.messages) == 10)
        await until(lambda: all(not each.messages for each in member.statistics().queues.values()))
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        reply = await ask(broker, code, {"topic": "t", "group": "g"})
        table = decode_body(ConsumerStatusBody, reply.body).message_queue_table
        assert table == {wire(A0): 5, wire(A0._replace(broker_name="broker-b")): 5}
        reply = await ask(broker, code, {"topic": "t", "group": "other"})
        assert decode_body(ConsumerStatusBody, reply.body).message_queue_table == {}


async def test_insight_into_a_push_consumer(cluster: FakeCluster) -> None:
    """Its properties, subscriptions and queues; with the stacks of its tasks if wished."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    async with consumer(cluster, Seen().handle, tags="a") as member:
        await until(lambda: len(member.queues()) == 2)
        ext = {"consumerGroup": "g", "clientId": member.client_id, "jstackEnable": "true"}
        reply = await ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        info = decode_body(ConsumerRunningInfo, reply.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_NAMESERVER_ADDR"] == cluster.namesrv
        assert "a" in [each.sub_string for each in info.subscription_set]
        assert wire(A0) in info.mq_table
        assert (
            info.jstack is not None and "task pull" in info.jstack and "thread Main" in info.jstack
        )
        ext = {"consumerGroup": "other", "clientId": member.client_id}
        reply = await ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "The Consumer Group <other> not exist in this consumer"


async def test_insight_into_a_polling_consumer(cluster: FakeCluster) -> None:
    """It has no handlers, so that it handles nothing on demand."""
    cluster.create("t", 1)
    fill(cluster, "t", 2)
    broker = cluster.brokers[0]
    member = LitePullConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    member.subscribe("t")
    async with member:
        await until(lambda: len(member.assignment()) == 2)
        await until(lambda: member.statistics()[A0].messages == 1)
        ext = {"consumerGroup": "g", "clientId": member.client_id}
        reply = await ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        info = decode_body(ConsumerRunningInfo, reply.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert info.mq_table[wire(A0)].cached_msg_count == 1
        assert info.jstack is None
        body = encode_record(broker.log["t", 0][0])
        reply = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, body)
        assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_a_message_is_handled_at_once(cluster: FakeCluster) -> None:
    """Whoever owns its queue; its outcome is told, its offset stays."""
    cluster.create("t", 1)
    seen = Seen()
    broker = cluster.brokers[0]
    async with consumer(cluster, seen.handle) as member:
        await until(lambda: len(member.queues()) == 2)
        broker.store("elsewhere", 3, b"other")
        fill(cluster, "t", 1)
        await until(lambda: len(seen.messages) == 1)
        ext = {"consumerGroup": "g", "clientId": member.client_id, "brokerName": "broker-a"}
        body = encode_record(broker.log["t", 0][0])
        reply = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, body)
        result = decode_body(ConsumeDirectlyResult, reply.body)
        assert (result.consume_result, result.order) == ("CR_SUCCESS", False)
        assert seen.messages[1].queue == A0 and seen.bodies == {b"0": 2}
        body = encode_record(broker.log["elsewhere", 3][0])
        reply = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, body)
        result = decode_body(ConsumeDirectlyResult, reply.body)
        assert result.consume_result == "CR_THROW_EXCEPTION"
        for rubbish in (b"", b"\0" * 100):
            reply = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, rubbish)
            assert reply.code == ResponseCode.SYSTEM_ERROR
