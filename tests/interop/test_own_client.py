"""Our client against each server: ours by default, the real RocketMQ 5.5.0 always."""

import asyncio
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

SECONDS_MAX = 60  # that anything may take on a busy machine


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def namesrv(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a cluster with one broker."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("own-client")) as cluster:
        yield cluster.namesrv


def new_topic() -> str:
    """Return a name that no other test uses."""
    return f"own-{uuid.uuid4().hex[:12]}"


async def test_every_kind_of_send_arrives(namesrv: str) -> None:
    """Single, batch, one-way, compressed by each codec; tags, keys and properties with them."""
    topic, got = new_topic(), dict[bytes, ReceivedMessage]()
    large = bytes(range(256)) * 40
    async with Producer("own-producers", namesrv=namesrv) as producer:
        sent = await producer.send(
            Message(topic, b"one", tags="a", keys="k1 k2", properties={"colour": "grün"})
        )
        await producer.send_many([Message(topic, b"batch %d" % at, tags="b") for at in range(20)])
        await producer.send_oneway(Message(topic, b"one-way"))
        for codec in ("zlib", "lz4", "zstd"):
            settings = ProducerSettings(compression=codec)
            async with Producer("own-packers", namesrv=namesrv, settings=settings) as packing:
                await packing.send(Message(topic, large + codec.encode()))

    async def handle(message: ReceivedMessage) -> None:
        got[message.body] = message

    consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic, handle)
    async with consumer:
        await until(lambda: len(got) == 25, SECONDS_MAX)
    one = got[b"one"]
    assert (one.tags, one.keys, one.properties["colour"]) == ("a", ["k1", "k2"], "grün")
    assert (one.message_id, one.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert (one.queue, one.queue_offset) == (sent.queue, sent.queue_offset)
    offsets = [got[b"batch %d" % at].queue_offset for at in range(20)]
    assert offsets == list(range(offsets[0], offsets[0] + 20))
    assert all(large + codec in got for codec in (b"zlib", b"lz4", b"zstd"))


async def test_tags_are_filtered(namesrv: str) -> None:
    """Only wanted tags come, one with the same hash as a wanted one does not."""
    topic, got = new_topic(), Counter[str | None]()

    async def handle(message: ReceivedMessage) -> None:
        got[message.tags] += 1

    async with Producer(namesrv=namesrv) as producer:
        for tags in ("Aa", "BB", "C", None) * 10:  # "Aa" and "BB" have the same hash
            await producer.send(Message(topic, b"x", tags=tags))
        consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe(topic, handle, tags="Aa || C")
        async with consumer:
            await until(lambda: sum(got.values()) == 20, SECONDS_MAX)
            await producer.send_many(
                [Message(topic, b"x", tags="BB"), Message(topic, b"x", tags="C")]
            )
            await until(lambda: sum(got.values()) == 21, SECONDS_MAX)
    assert got == {"Aa": 10, "C": 11}


async def test_members_share_and_lose_nothing(namesrv: str) -> None:
    """A second member comes and the first goes while messages flow; all of them arrive."""
    topic, got, owners = new_topic(), Counter[bytes](), dict[int, set[str]]()
    sent = 0

    async def member(name: str) -> PushConsumer:
        async def handle(message: ReceivedMessage) -> None:
            got[message.body] += 1
            owners.setdefault(message.queue.queue_id, set()).add(name)

        consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe(topic, handle)
        await consumer.start()
        return consumer

    async with Producer(namesrv=namesrv) as producer:

        async def send_until(enough: asyncio.Event) -> None:
            nonlocal sent
            while not enough.is_set():
                await producer.send(Message(topic, b"%d" % sent))
                sent += 1

        await producer.send(Message(topic, b"first"))
        first = await member("first")
        await until(lambda: len(first.queues()) == 4, SECONDS_MAX)
        enough = asyncio.Event()
        sending = asyncio.ensure_future(send_until(enough))
        second = await member("second")
        await until(lambda: len(first.queues()) == len(second.queues()) == 2, SECONDS_MAX)
        await first.close()
        await until(lambda: len(second.queues()) == 4, SECONDS_MAX)
        before = len(got)
        await until(lambda: len(got) > before + 100, SECONDS_MAX)
        enough.set()
        await sending
        await until(lambda: len(got) == sent + 1, SECONDS_MAX)
        await second.close()
    assert {name for names in owners.values() for name in names} == {"first", "second"}
    again = PushConsumer(topic, namesrv=namesrv)
    again.subscribe(topic, lambda message: got.update([message.body]))
    total = sum(got.values())
    async with again:  # the group goes on where it stopped: nothing comes again
        await until(lambda: len(again.queues()) == 4, SECONDS_MAX)
        await asyncio.sleep(0.3)
    assert sum(got.values()) == total


async def test_lite_pull_reads_seeks_and_commits(namesrv: str) -> None:
    """Shared and given queues, by batch and one by one."""
    topic = new_topic()
    async with Producer(namesrv=namesrv) as producer:
        for at in range(100):
            await producer.send(Message(topic, b"%d" % at), key=at)
    consumer = LitePullConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    bodies = set[bytes]()
    async with consumer:
        while len(bodies) < 100:
            bodies.update(message.body for message in await consumer.poll())
        await consumer.commit()
        for queue in consumer.assignment():
            assert await consumer.committed(queue) == 25
            await consumer.seek(queue, 20)
            assert (await consumer.poll())[0].queue_offset == 20
    given = LitePullConsumer(topic + "-given", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    async with given:
        queues = await given.fetch_queues(topic)
        await given.assign(queues[:1])
        async for message in given:
            if message.queue_offset == 24:
                break
        assert await given.offset_for_timestamp(queues[0], 0) == 0
        await given.commit()
        assert await given.committed(queues[0]) == 25


SERVICE = """
import asyncio, sys
from aerobee.client import ConsumeFrom, LitePullConsumer, PushConsumer

namesrv, topic, kind = sys.argv[1:]

async def handle(message):
    print(message.body.decode(), flush=True)

async def work(consumer):
    async for message in consumer:
        await handle(message)

if kind == "push":
    consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic, handle)
    asyncio.run(consumer.run())
else:
    consumer = LitePullConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic)
    asyncio.run(consumer.run(work))
"""


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_a_service_that_is_told_to_end_handles_nothing_twice(namesrv: str, kind: str) -> None:
    """SIGTERM, and another life: it gets what was sent since, and nothing else."""
    topic = new_topic()

    async def life(number: int, expected: list[str]) -> None:
        async with Producer("own-producers", namesrv=namesrv) as producer:
            for body in expected:
                await producer.send(Message(topic, body.encode()))
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVICE, namesrv, topic, kind, stdout=-1
        )
        assert child.stdout is not None
        got: list[str] = []
        async with asyncio.timeout(SECONDS_MAX):
            while len(got) < len(expected):
                got.append((await child.stdout.readline()).decode().strip())
            child.send_signal(number)
            rest = await child.stdout.read()
            await child.wait()
        assert sorted(got) == expected
        assert (rest, child.returncode) == (b"", 0)

    await life(signal.SIGTERM, [f"first {at:02}" for at in range(20)])
    await life(signal.SIGINT, [f"second {at:02}" for at in range(5)])
    await life(signal.SIGTERM, ["third"])


async def test_a_start_that_may_fail_waits_for_an_answer(namesrv: str) -> None:
    """Of a topic that does not exist as well as of one that does."""
    topic = new_topic()
    consumer = PushConsumer(topic, namesrv=namesrv)
    consumer.subscribe(topic, lambda message: None)
    await consumer.start(timeout_ms=SECONDS_MAX * 1_000)
    await consumer.close()
    async with Producer("own-producers", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"x"))
    await consumer.start(timeout_ms=SECONDS_MAX * 1_000)
    assert repr(consumer).startswith(f"<PushConsumer {topic!r}: started, ")
    await consumer.close()


async def test_what_is_sent_soon_is_stored_once_each(
    namesrv: str, request: pytest.FixtureRequest
) -> None:
    """Every handle has a result, a place each, those of a key in one queue; large ones are packed.

    Ours keeps the order of a key, too; RocketMQ's broker serves one connection by several threads.
    """
    topic, count = new_topic(), 3_000
    bodies = [
        b"%06d" % number + (b"z" * 6_000 if number % 50 == 0 else b"") for number in range(count)
    ]
    # a cold RocketMQ refuses what has waited for 200 ms: some hundred are out at a time
    settings = ProducerSettings(send_soon_bytes_max=16 * 1024, send_timeout_ms=30_000)
    async with Producer("own-producers", namesrv=namesrv, settings=settings) as producer:
        for _ in range(200):
            await producer.send(Message(topic, b"warm"))
        handles = []
        for number, body in enumerate(bodies):
            if producer.full:
                await producer.room()
            message = Message(
                topic, body, tags="a", keys=f"k{number}", properties={"colour": "red"}
            )
            handles.append(producer.send_soon(message, key=number % 4))
        await producer.flush()
        results = [handle.result() for handle in handles]
        awaited = await asyncio.gather(
            *(producer.send(Message(topic, b"awaited")) for _ in range(64))
        )
    places = {(result.queue, result.queue_offset) for result in (*results, *awaited)}
    assert len(places) == count + 64
    assert len({result.offset_message_id for result in results}) == count
    for key in range(4):
        assert len({each.queue for each in results[key::4]}) == 1
        offsets = [each.queue_offset for each in results[key::4]]
        assert offsets == sorted(offsets) or "rocketmq" in request.node.name
    got = Counter[bytes]()

    async def handle_one(message: ReceivedMessage) -> None:
        got[message.body] += message.body != b"warm"

    consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic, handle_one)
    async with consumer:
        await until(lambda: got.total() >= count + 64, SECONDS_MAX)
    assert got == Counter([*bodies, *[b"awaited"] * 64])
