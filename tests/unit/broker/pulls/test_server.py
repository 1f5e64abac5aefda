"""Pulls through a real socket: every status with its code, holding, filters, limits, refusals."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.front.ports import FAST_PORT_STEP
from aerobee.broker.writing.hooks import PullEvent
from aerobee.remoting.codes import Perm, PullSysFlag, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that makes topics."""
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def producer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A client that has sent messages 0 to 2, tagged TagA, to queue 0 of topic T."""
    async with await RawPeer.connect(broker.port) as connected:
        for number in range(3):
            await send(connected, b"m%d" % number)
        yield connected


@pytest.fixture
async def consumer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A client that pulls."""
    async with await RawPeer.connect(broker.port) as connected:
        yield connected


async def send(peer: RawPeer, body: bytes, tag: str = "TagA") -> None:
    """Send one message and see that it is stored."""
    properties = f"UNIQ_KEY\x01AAAA\x02TAGS\x01{tag}\x02"
    reply = await peer.request(send_command(body, properties=properties))
    assert reply.code == ResponseCode.SUCCESS


def bodies(reply: Command) -> list[bytes]:
    """Return the bodies of the records that a pull brought."""
    return [bytes(record.body) for record in iter_records(bytes(reply.body))]


def offsets(reply: Command) -> tuple[int, int, int]:
    """Return where to go on, and the queue's bounds."""
    ext = reply.ext
    return int(ext["nextBeginOffset"]), int(ext["minOffset"]), int(ext["maxOffset"])


async def test_a_pull_brings_records_as_they_lie_in_the_log(
    producer: RawPeer, consumer: RawPeer
) -> None:
    """Records come back to back, with the offset to ask for next."""
    reply = await consumer.request(pull_command(1))
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert bodies(reply) == [b"m1", b"m2"]
    assert offsets(reply) == (3, 0, 3)
    assert reply.ext["suggestWhichBrokerId"] == "0"


STATUSES = [
    (0, 0, ResponseCode.SUCCESS, "FOUND", 3),
    (3, 0, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3),
    (4, 0, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3),
    (-1, 0, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    (0, 1, ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0),
    (7, 1, ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0),
]


@pytest.mark.parametrize(("offset", "queue_id", "code", "status", "next_offset"), STATUSES)
async def test_every_status_has_its_code(
    producer: RawPeer,
    consumer: RawPeer,
    offset: int,
    queue_id: int,
    code: int,
    status: str,
    next_offset: int,
) -> None:
    """The code decides what a client does next, the offset where."""
    reply = await consumer.request(pull_command(offset, queue_id=queue_id))
    assert (reply.code, reply.remark) == (code, status)
    assert offsets(reply)[0] == next_offset


async def test_a_tag_filter_passes_over_what_is_not_wanted(
    producer: RawPeer, consumer: RawPeer
) -> None:
    """Unwanted messages move the offset and are not sent."""
    await send(producer, b"b", "TagB")
    await send(producer, b"c", "TagC")
    wanted = await consumer.request(pull_command(0, expression="TagB || TagC"))
    assert (bodies(wanted), offsets(wanted)[0]) == ([b"b", b"c"], 5)
    nothing = await consumer.request(pull_command(0, expression="TagX"))
    assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert (nothing.remark, offsets(nothing)[0]) == ("NO_MATCHED_MESSAGE", 5)


async def test_a_held_pull_is_answered_when_a_message_arrives(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """Long polling: no reply before the message, one right after it."""
    await consumer.send(encode_frame(pull_command(3, suspend_ms=30_000)))
    await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    await send(producer, b"late")
    reply = await consumer.read()
    assert (bodies(reply), offsets(reply)[0]) == ([b"late"], 4)
    assert broker.context.pulls.holds.count == 0


async def test_a_held_pull_wakes_for_its_tag_only(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """Messages of other tags leave it waiting, and are passed over when it is answered."""
    await consumer.send(encode_frame(pull_command(3, suspend_ms=30_000, expression="TagB")))
    await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    await send(producer, b"other")
    assert broker.context.pulls.holds.count == 1
    await send(producer, b"mine", "TagB")
    reply = await consumer.read()
    assert (bodies(reply), offsets(reply)[0]) == ([b"mine"], 5)


async def test_a_held_pull_ends_with_its_time(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """Without a message the client hears that there is none."""
    reply = await consumer.request(pull_command(3, suspend_ms=150))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
    waiting = encode_frame(pull_command(3, suspend_ms=400, expression="TagB"))
    await consumer.send(waiting)
    await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    await send(producer, b"other")
    reply = await consumer.read()
    assert reply.code in (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND)
    assert (bodies(reply), offsets(reply)[0]) == ([], 4)


async def test_without_long_polling_a_pull_waits_as_long_as_the_broker_says(tmp_path: Path) -> None:
    """With longPollingEnable=false it is shortPollingTimeMills, whatever the client asks for."""
    settings = {"longPollingEnable": "false", "shortPollingTimeMills": "200"}
    async with (
        running_broker(tmp_path, **settings) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await send(peer, b"m0")
        began_s = asyncio.get_running_loop().time()
        reply = await peer.request(pull_command(1, suspend_ms=30_000))
        waited_s = asyncio.get_running_loop().time() - began_s
    assert reply.code == ResponseCode.PULL_NOT_FOUND
    assert 0.1 < waited_s < 10  # the sweep that ends it may come a little early


async def test_many_hold_the_same_queue(broker: Broker, producer: RawPeer) -> None:
    """One message answers everybody who waits for it."""
    peers = [await RawPeer.connect(broker.port) for _ in range(5)]
    for peer in peers:
        await peer.send(encode_frame(pull_command(3, suspend_ms=30_000)))
    await until(lambda: broker.context.pulls.holds.count == 5, what="five pulls are held")
    await send(producer, b"all")
    for peer in peers:
        assert bodies(await peer.read()) == [b"all"]
        peer.writer.close()


async def test_a_consumer_that_leaves_takes_its_pull_along(
    broker: Broker, producer: RawPeer
) -> None:
    """A closed connection holds nothing once a message comes."""
    async with await RawPeer.connect(broker.port) as peer:
        await peer.send(encode_frame(pull_command(3, suspend_ms=30_000)))
        await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    await until(lambda: len(broker.context.consumers.members.client_ids("G")) == 0, what="it left")
    await send(producer, b"nobody")
    await until(lambda: broker.context.pulls.holds.count == 0, what="nothing is held")


async def test_at_most_32_messages_and_256_kib_come_at_once(
    producer: RawPeer, consumer: RawPeer
) -> None:
    """One reply is bounded by count and by bytes, and always brings one message."""
    for number in range(40):
        await send(producer, b"s%d" % number)
    many = await consumer.request(pull_command(0, maxMsgNums=100))
    assert len(bodies(many)) == 32
    few = await consumer.request(pull_command(0, maxMsgNums=5))
    assert len(bodies(few)) == 5
    for _ in range(3):
        await send(producer, bytes(100_000))
    first = offsets(many)[2]
    large = await consumer.request(pull_command(first))
    assert len(bodies(large)) == 2
    await send(producer, bytes(400_000))
    huge = await consumer.request(pull_command(first + 3))
    assert [len(body) for body in bodies(huge)] == [400_000]


async def test_a_pull_commits_what_it_carries(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """With the flag, and only with it, the offset in the header is committed."""
    plain = pull_command(0, commitOffset=2)
    await consumer.request(plain)
    assert broker.context.tables.offsets.committed("G", "T", 0) is None
    flags = PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET
    await consumer.request(pull_command(0, commitOffset=2, sysFlag=int(flags)))
    assert broker.context.tables.offsets.committed("G", "T", 0) == 2


REFUSALS = [
    ({"topic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "not exist, apply first please!"),
    ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "queueId[4] is illegal"),
    ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER, "queueId[-1] is illegal"),
    ({"expression": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's"),
    ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist"),
    ({"expressionType": "SQL92"}, ResponseCode.SYSTEM_ERROR, "does not support"),
    ({"queueOffset": "x"}, ResponseCode.SYSTEM_ERROR, "queueOffset"),
]


@pytest.mark.parametrize(("change", "code", "remark"), REFUSALS)
async def test_a_wrong_pull_is_refused_with_code_and_reason(
    producer: RawPeer, consumer: RawPeer, change: dict[str, str], code: int, remark: str
) -> None:
    """The connection stays usable."""
    reply = await consumer.request(pull_command(**change))  # type: ignore[arg-type]
    assert reply.code == code, reply.remark
    assert remark in (reply.remark or "")
    assert (await consumer.request(pull_command())).code == ResponseCode.SUCCESS


async def test_closed_groups_topics_and_brokers_are_not_read(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """NO_PERMISSION, whichever of the three is closed for reading."""
    context = broker.context
    group = context.tables.groups.find("G")
    topic = context.tables.topics.get("T")
    assert group is not None
    assert topic is not None
    context.tables.groups.update(msgspec.structs.replace(group, consume_enable=False))
    assert (await consumer.request(pull_command())).code == ResponseCode.NO_PERMISSION
    context.tables.groups.update(group)
    context.tables.topics.update(msgspec.structs.replace(topic, perm=Perm.WRITE))
    assert (await consumer.request(pull_command())).code == ResponseCode.NO_PERMISSION
    context.tables.topics.update(topic)
    assert (await consumer.request(pull_command())).code == ResponseCode.SUCCESS
    await context.changes.update({"brokerPermission": "2"})
    reply = await consumer.request(pull_command())
    assert reply.remark == "the broker[127.0.0.1] pulling message is forbidden"


async def test_the_fast_port_serves_everything_but_pulls(broker: Broker, producer: RawPeer) -> None:
    """RocketMQ answers a pull there as it answers any unknown code."""
    async with await RawPeer.connect(broker.port - FAST_PORT_STEP) as peer:
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        reply = await peer.request(pull_command())
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == " request type 11 not supported"


async def test_hooks_see_what_was_pulled(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """A hook learns group, place and size of every answered pull."""
    events: list[PullEvent] = []
    broker.hooks.add(after_pull=events.append)
    reply = await consumer.request(pull_command(1))
    (event,) = events
    assert (event.group, event.topic, event.queue_id, event.offset) == ("G", "T", 0, 1)
    assert (event.code, event.count, event.size_bytes) == (0, 2, len(reply.body))


async def test_a_read_that_sends_and_pulls_sees_its_own_message(producer: RawPeer) -> None:
    """Frames of one socket read are served in order, whatever is collected for the tick."""
    properties = "UNIQ_KEY\x01AAAA\x02"
    await producer.send(
        encode_frame(send_command(b"one", properties=properties)) + encode_frame(pull_command(3))
    )
    replies = [await producer.read(), await producer.read()]
    (pulled,) = [reply for reply in replies if reply.body]
    assert bodies(pulled) == [b"one"]


async def test_concurrent_producers_and_a_consumer_agree(
    broker: Broker, producer: RawPeer, consumer: RawPeer
) -> None:
    """Offsets are dense and the order of acknowledgement is the order of the queue."""

    async def produce(name: int) -> list[tuple[int, bytes]]:
        placed = []
        async with await RawPeer.connect(broker.port) as peer:
            for number in range(50):
                body = b"%d-%d" % (name, number)
                reply = await peer.request(send_command(body))
                placed.append((int(reply.ext["queueOffset"]), body))
        return placed

    lists = await asyncio.gather(*(produce(name) for name in range(4)))
    placed = sorted(itertools.chain.from_iterable(lists))
    found: list[tuple[int, bytes]] = []
    offset = 3
    while len(found) < 200:
        reply = await consumer.request(pull_command(offset))
        found += [(r.queue_offset, bytes(r.body)) for r in iter_records(bytes(reply.body))]
        offset = offsets(reply)[0]
    assert found == placed
    assert [at for at, _ in found] == list(range(3, 203))
