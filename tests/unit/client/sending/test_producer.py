"""Messages go where they should, and elsewhere when that fails."""

import asyncio
import time

import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.silent_server import SilentServer
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    ClientSettings,
    InvalidMessage,
    InvalidUse,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    RouteMissing,
    SendContext,
    SendFailed,
    SendHook,
    SendStatus,
    Unavailable,
)
from aerobee.client.cluster.decoding import decode_messages
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Codec
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.message.record import encode_record
from aerobee.remoting.net.routes import Reply

SEND = RequestCode.SEND_MESSAGE_V2


def bodies(cluster: FakeCluster, topic: str) -> list[bytes]:
    """Return every body that the brokers stored for a topic."""
    return [
        record.body
        for broker in cluster.brokers
        for (name, _), records in broker.log.items()
        for record in records
        if name == topic
    ]


def sends(cluster: FakeCluster) -> list[FakeBroker]:
    """Return a broker for each send request that it got."""
    return [broker for broker in cluster.brokers for _ in broker.requests(SEND)]


async def test_a_message_arrives_as_it_was_sent(cluster: FakeCluster) -> None:
    """Body, tag, keys, properties and ids reach the broker; the result says where."""
    cluster.create("t", 1)
    message = Message("t", b"hello", tags="a", keys="k", properties={"x": "y"}, flag=9)
    async with Producer("pg", namesrv=cluster.namesrv) as producer:
        result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
    record = broker.log["t", result.queue.queue_id][result.queue_offset]
    (got,) = decode_messages(encode_record(record), result.queue)
    assert (got.body, got.tags, got.keys, got.message_id) == (
        b"hello",
        "a",
        ["k"],
        result.message_id,
    )
    assert got.properties["x"] == "y"
    ext = broker.requests(SEND)[0].ext
    assert (ext["a"], ext["b"], ext["c"], ext["d"], ext["h"]) == ("pg", "t", "TBW102", "4", "9")
    assert (ext["m"], ext["n"]) == ("false", broker.name)


async def test_queues_of_all_brokers_take_turns(cluster: FakeCluster) -> None:
    """Eight sends reach the four queues twice each."""
    cluster.create("t", 2)
    async with Producer(namesrv=cluster.namesrv) as producer:
        queues = [(await producer.send(Message("t", b"x"))).queue for _ in range(8)]
    assert sorted(queues[:4]) == sorted(queues[4:])
    assert len(set(queues)) == 4


async def test_an_unknown_topic_is_created_by_the_first_send(cluster: FakeCluster) -> None:
    """It goes where TBW102 is, over the producer's own number of queues."""
    settings = ProducerSettings(default_topic_queues=3)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        assert len(await producer.fetch_queues("new")) == 6
        await asyncio.gather(*(producer.send(Message("new", b"x")) for _ in range(6)))
        assert all(broker.topics["new"] == 3 for broker in cluster.brokers)


async def test_a_topic_that_nobody_creates_is_an_error(cluster: FakeCluster) -> None:
    """The text names the topic and the nameservers."""
    for broker in cluster.brokers:
        del broker.topics["TBW102"]
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(RouteMissing, match=rf"'new'.*{cluster.namesrv}"):
            await producer.send(Message("new", b"x"))


async def test_keys_queues_and_selectors_choose(cluster: FakeCluster) -> None:
    """Equal keys share a queue; a given queue and a selector's are taken."""
    cluster.create("t", 4)
    async with Producer(namesrv=cluster.namesrv) as producer:
        by_key = {(await producer.send(Message("t", b"x"), key="order-1")).queue for _ in range(5)}
        assert len(by_key) == 1
        wanted = MessageQueue("t", "broker-b", 2)
        assert (await producer.send(Message("t", b"x"), queue=wanted)).queue == wanted
        result = await producer.send(
            Message("t", b"x"), selector=lambda queues, message: queues[-1]
        )
        assert result.queue == MessageQueue("t", "broker-b", 3)
        with pytest.raises(InvalidUse, match="no queue of the topic"):
            await producer.send(
                Message("t", b"x"), selector=lambda queues, message: MessageQueue("t", "z", 0)
            )
        with pytest.raises(InvalidUse, match="one of queue, key and selector"):
            await producer.send(Message("t", b"x"), key=1, queue=wanted)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.TOPIC_NOT_EXIST])
async def test_a_refusal_is_retried_on_the_other_broker(cluster: FakeCluster, code: int) -> None:
    """The second attempt never goes to the broker that refused."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        broker.refuse(SEND, code, times=1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
    assert sorted(len(broker.requests(SEND)) for broker in cluster.brokers) == [1, 2]
    assert bodies(cluster, "t") == [b"x"]


async def test_a_final_refusal_is_raised_at_once(cluster: FakeCluster) -> None:
    """A code outside of the list ends the send with the broker's words."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        broker.refuse(SEND, ResponseCode.MESSAGE_ILLEGAL)
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(BrokerRefused, match=r"13 \(MESSAGE_ILLEGAL\): as the test") as caught:
            await producer.send(Message("t", b"x"))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert len(sends(cluster)) == 1


async def test_the_attempts_are_counted(cluster: FakeCluster) -> None:
    """After the first and two more the error names the brokers and holds the last reason."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        broker.refuse(SEND, ResponseCode.SERVICE_NOT_AVAILABLE, times=9)
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(SendFailed, match="failed 3 times") as caught:
            await producer.send(Message("t", b"x"))
        assert isinstance(caught.value.__cause__, BrokerRefused)
        assert len(set(caught.value.brokers[:2])) == 2
        with pytest.raises(BrokerRefused):  # chosen queues are tried once
            await producer.send(Message("t", b"x"), key="k")
    assert len(sends(cluster)) == 4


async def test_the_time_of_all_attempts_is_limited(cluster: FakeCluster) -> None:
    """A broker that does not answer takes the whole budget, not each attempt's."""
    cluster.create("t", 4)
    for broker in cluster.brokers:
        broker.script[SEND].extend([lambda *_: None] * 9)
    settings = ProducerSettings(send_timeout_ms=60_000)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        began = time.monotonic()
        with pytest.raises(SendFailed):
            await producer.send(Message("t", b"x"), timeout_ms=200)
        assert 0.15 < time.monotonic() - began < 20
    assert len(sends(cluster)) == 1


async def test_nothing_is_sent_when_the_time_is_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up may have taken it all: who is told of a failure then may send again."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv, hooks=[SendHook()]) as producer:
        for _ in cluster.brokers:
            result = await producer.send(Message("t", b"x"))
        with monkeypatch.context() as late:
            late.setattr(producer, "_deadline_s", lambda timeout_ms: time.monotonic())
            with pytest.raises(SendFailed):
                await producer.send(Message("t", b"late"))
            with pytest.raises(NotConnected, match="time was up"):
                await producer.send(Message("t", b"late"), queue=result.queue)
        await producer.send(Message("t", b"y"), queue=result.queue)
    bodies = {bytes(each.body) for broker in cluster.brokers for each in broker.requests(SEND)}
    assert bodies == {b"x", b"y"}


async def test_a_lost_connection_is_made_again(cluster: FakeCluster) -> None:
    """After the broker closed it, the next send goes through."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"1"))
        for broker in cluster.brokers:
            for connection in list(broker.connections):
                connection.close("test")
                await connection.wait_closed()
        await producer.send(Message("t", b"2"))
    assert sorted(bodies(cluster, "t")) == [b"1", b"2"]


async def test_a_dead_broker_is_passed_over(cluster: FakeCluster) -> None:
    """While the route still names it, its share goes to the other one."""
    cluster.create("t", 4)
    await cluster.brokers[1].stop()
    async with Producer(namesrv=cluster.namesrv) as producer:
        results = [await producer.send(Message("t", b"x")) for _ in range(8)]
    assert {result.queue.broker_name for result in results} == {"broker-a"}


async def test_not_stored_well_is_told_or_retried(cluster: FakeCluster) -> None:
    """FLUSH_DISK_TIMEOUT is a status; with the setting another broker is asked."""
    cluster.create("t", 1)
    late = Reply(
        code=ResponseCode.FLUSH_DISK_TIMEOUT,
        ext={"msgId": "ID", "queueId": "0", "queueOffset": "7"},
    )
    for broker in cluster.brokers:
        broker.script[SEND].append(lambda *_: late)
    async with Producer(namesrv=cluster.namesrv) as producer:
        result = await producer.send(Message("t", b"x"))
        assert (result.status, result.queue_offset) == (SendStatus.FLUSH_DISK_TIMEOUT, 7)
    settings = ProducerSettings(retry_other_broker_when_not_stored=True)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        result = await producer.send(Message("t", b"x"))
        assert result.status is SendStatus.SEND_OK


async def test_a_batch_is_one_request(cluster: FakeCluster) -> None:
    """Its messages get offsets in a row, each with its own id and tag."""
    cluster.create("t", 1)
    messages = [Message("t", b"%d" % at, tags="even" if at % 2 == 0 else "odd") for at in range(5)]
    async with Producer(namesrv=cluster.namesrv) as producer:
        result = await producer.send_many(messages)
    broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
    (request,) = broker.requests(RequestCode.SEND_BATCH_MESSAGE)
    assert request.ext["m"] == "true"
    wire = b"".join(encode_record(record) for record in broker.log["t", 0])
    got = decode_messages(wire, result.queue)
    assert [message.body for message in got] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.tags for message in got] == ["even", "odd", "even", "odd", "even"]
    assert ",".join(message.message_id for message in got) == result.message_id
    assert result.queue_offset == 0
    assert result.offset_message_id.count(",") == 4


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one"),
        ([Message("t", b"1"), Message("u", b"2")], "goes to one topic"),
        ([Message("t", b"1", delay_level=1)], "delay"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
        ([Message("t", b"x" * 600), Message("t", b"y" * 600)], "smaller parts"),
    ],
)
async def test_impossible_batches_are_refused(
    cluster: FakeCluster, messages: list[Message], complaint: str
) -> None:
    """Nothing is sent, and the text says what is wrong."""
    settings = ProducerSettings(body_bytes_max=1024)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        with pytest.raises(InvalidMessage, match=complaint):
            await producer.send_many(messages)
    assert not sends(cluster)


async def test_a_one_way_send_asks_for_no_reply(cluster: FakeCluster) -> None:
    """It is marked as such, and stored."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send_oneway(Message("t", b"x"))
        await until(lambda: bodies(cluster, "t") == [b"x"])
    (request,) = [each for broker in cluster.brokers for each in broker.requests(SEND)]
    assert request.is_oneway


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
async def test_large_bodies_are_compressed(cluster: FakeCluster, codec: str) -> None:
    """Over 4 KiB they travel small and arrive whole; 4 KiB do not."""
    cluster.create("t", 1)
    small, large = b"s" * 4096, b"l" * 4097
    async with Producer(
        namesrv=cluster.namesrv, settings=ProducerSettings(compression=codec)
    ) as producer:
        await producer.send(Message("t", small))
        await producer.send(Message("t", large))
    requests = [each for broker in cluster.brokers for each in broker.requests(SEND)]
    wire = {len(bytes(each.body)): int(each.ext["f"]) for each in requests}
    assert wire.pop(4096) == 0
    ((size, flags),) = wire.items()
    assert size < 200
    assert flags & 1


async def test_hooks_see_every_attempt(cluster: FakeCluster) -> None:
    """Before and after each, with what happened; a property added before is sent."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.refuse(SEND, ResponseCode.SYSTEM_BUSY)
    seen: list[tuple[str, bool, bool]] = []

    class Trace(SendHook):
        def before(self, context: SendContext) -> None:
            seen.append(("before", context.result is None, context.error is None))
            context.messages[0].properties["trace"] = "1"

        def after(self, context: SendContext) -> None:
            seen.append(("after", context.result is None, context.error is None))
            raise ValueError("what a hook raises afterwards does no harm")

    async with Producer(namesrv=cluster.namesrv, hooks=[Trace()]) as producer:
        result = await producer.send(Message("t", b"x"))
        await producer.send_many([Message("t", b"y")])
        await producer.send_oneway(Message("t", b"z"))
    assert seen[:2] == [("before", True, True), ("after", True, False)]
    assert seen[-2:] == [("before", True, True), ("after", True, True)]
    assert ("after", False, True) in seen
    sent = [each for broker in cluster.brokers for each in broker.requests(SEND)]
    assert all("trace\x011\x02" in each.ext["i"] for each in sent)
    ids = {each.ext["i"].split("UNIQ_KEY\x01")[1] for each in sent if bytes(each.body) == b"x"}
    assert ids == {result.message_id + "\x02"}


async def test_use_before_start_and_after_close_is_refused(cluster: FakeCluster) -> None:
    """The text says what to do."""
    producer = Producer(namesrv=cluster.namesrv)
    with pytest.raises(InvalidUse, match="async with"):
        await producer.send(Message("t", b"x"))
    async with producer:
        with pytest.raises(InvalidUse, match="started already"):
            await producer.start()
    with pytest.raises(InvalidUse):
        await producer.send_oneway(Message("t", b"x"))


async def test_brokers_hear_of_the_group_and_of_its_end(cluster: FakeCluster) -> None:
    """The first request on a connection is a heartbeat; closing says good-bye."""
    cluster.create("t", 1)
    async with Producer("pg", namesrv=cluster.namesrv) as producer:
        result = await producer.send(Message("t", b"x"), key=1)
        broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
        assert broker.heartbeats[0].producer_data_set[0].group_name == "pg"
    (good_bye,) = broker.requests(RequestCode.UNREGISTER_CLIENT)
    assert good_bye.ext["producerGroup"] == "pg"


async def test_msgpack_is_spoken_where_it_is_offered(cluster: FakeCluster) -> None:
    """After the heartbeat's answer requests to that broker change codec, all but sends do."""
    cluster.create("t", 1)
    cluster.brokers[1].msgpack = True
    async with Producer(namesrv=cluster.namesrv) as producer:
        for _ in range(4):
            await producer.send(Message("t", b"x"))
        await until(lambda: bool(cluster.brokers[1].heartbeats))
        for _ in range(4):
            await producer.send(Message("t", b"x"))
    assert {each.codec for broker in cluster.brokers for each in broker.requests(SEND)} == {0}
    good_byes = [
        [each.codec for each in broker.requests(RequestCode.UNREGISTER_CLIENT)]
        for broker in cluster.brokers
    ]
    assert good_byes == [[Codec.JSON], [Codec.MSGPACK]]


async def test_a_silent_nameserver_costs_no_more_than_the_sends_time() -> None:
    """The look-up goes on without the send: the next one may find its result."""
    message = Message("t", b"x")
    async with SilentServer() as one, SilentServer() as other:
        addresses, patient = [one.address, other.address], ClientSettings(api_timeout_ms=60_000)
        async with Producer(namesrv=addresses, client=patient) as producer:
            began = time.monotonic()
            for sending in (
                producer.send(message, timeout_ms=100),
                producer.send_many([message], timeout_ms=100),
            ):
                with pytest.raises(Unavailable, match="no nameserver told the route of topic 't'"):
                    await sending
            assert time.monotonic() - began < 20
        settings = ProducerSettings(send_timeout_ms=100)
        async with Producer(namesrv=addresses, client=patient, settings=settings) as producer:
            with pytest.raises(Unavailable, match="before the send's time was up"):
                await producer.send_oneway(message)
            assert time.monotonic() - began < 20


async def test_nobody_there_is_unavailable(cluster: FakeCluster) -> None:
    """Without a nameserver a send ends with a clear error, after all of them were asked."""
    addresses = [broker.address for broker in cluster.brokers]
    for broker in cluster.brokers:
        await broker.stop()
    async with Producer(namesrv=addresses) as producer:
        with pytest.raises(Unavailable, match=r"no nameserver of .* answered"):
            await producer.send(Message("t", b"x"), timeout_ms=100)
