"""Our client and our broker together: retries, dead letters, order, broadcasting."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    Later,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A broker whose topic "t" has four queues, and whose delays are short."""
    settings = {"message_delay_level": "1s 1s 1s 1s 1s 1s"}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        async with Cluster(cluster.namesrv_addr) as brokers:
            await brokers.create_topic("t", 4)
        yield cluster


async def send(cluster: EmbeddedCluster, count: int) -> None:
    """Send bodies b"0", b"1", ... over the four queues."""
    async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
        for at in range(count):
            await producer.send(Message("t", b"%d" % at, properties={"at": str(at)}), key=at % 4)


def member(cluster: EmbeddedCluster, handle: object, **options: object) -> PushConsumer:
    """Return a member of group g from the first message on."""
    made = PushConsumer(
        "g",
        namesrv=cluster.namesrv_addr,
        client=ClientSettings(rebalance_gap_ms=50, instance_name=str(options.pop("name", ""))),
        consume_from=ConsumeFrom.FIRST,
        **options,  # type: ignore[arg-type]
    )
    made.subscribe("t", handle)  # type: ignore[call-overload]
    return made


async def test_what_fails_comes_again_and_in_the_end_is_dead(cluster: EmbeddedCluster) -> None:
    """Once more for some, as often as allowed for others; nobody else is held up."""
    times: Counter[bytes] = Counter()
    counts: dict[bytes, list[int]] = defaultdict(list)

    async def handle(message: ReceivedMessage) -> ConsumeResult | Later | None:
        assert message.topic == "t"
        assert message.properties["at"] == message.body.decode()
        times[message.body] += 1
        counts[message.body].append(message.reconsume_times)
        if message.body == b"3" and message.reconsume_times < 1:
            raise ValueError("not yet")
        if message.body == b"5":
            return ConsumeResult.LATER
        if message.body == b"7":
            return Later(delay_level=-1)
        return None

    await send(cluster, 20)
    async with member(cluster, handle, settings=PushSettings(max_reconsume_times=2)) as consumer:
        await until(lambda: times[b"5"] == 3 and times[b"3"] == 2, 20)
        await until(lambda: consumer.statistics().handlers.succeeded == 18, 20)
        dead: list[ReceivedMessage] = []
        burial = PushConsumer(
            "undertaker", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST
        )
        burial.subscribe("%DLQ%g", lambda message: dead.append(message))
        async with burial:
            await until(lambda: len(dead) == 2, 20)
    assert counts[b"3"] == [0, 1] and counts[b"5"] == [0, 1, 2]
    assert {message.body for message in dead} == {b"5", b"7"}
    assert {message.properties["RETRY_TOPIC"] for message in dead} == {"t"}
    assert all(number == 1 for body, number in times.items() if body not in (b"3", b"5"))


async def test_ordered_queues_survive_joining_and_leaving(cluster: EmbeddedCluster) -> None:
    """Nothing twice, nothing lost, no queue out of order, while members come and go."""
    seen: dict[MessageQueue, list[int]] = defaultdict(list)
    running: set[MessageQueue] = set()

    async def handle(message: ReceivedMessage) -> None:
        assert message.queue not in running
        running.add(message.queue)
        await asyncio.sleep(0.001)
        seen[message.queue].append(message.queue_offset)
        running.discard(message.queue)

    await send(cluster, 1200)

    def total() -> int:
        return sum(map(len, seen.values()))

    async with member(cluster, handle, ordered=True) as first:
        await until(lambda: total() > 100, 20)
        async with member(cluster, handle, ordered=True) as second:
            await until(lambda: len(first.queues()) == len(second.queues()) == 2, 20)
            at = total()
            await until(lambda: total() > min(at + 200, 1100), 20)
        await until(lambda: total() == 1200, 30)
    assert sorted(seen) == [MessageQueue("t", "broker-a", number) for number in range(4)]
    assert all(offsets == list(range(300)) for offsets in seen.values())


async def test_an_ordered_queue_waits_for_its_failure(cluster: EmbeddedCluster) -> None:
    """And gives it up to the dead letters after the times that it may fail."""
    seen: dict[int, list[bytes]] = defaultdict(list)

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        seen[message.queue.queue_id].append(message.body)
        return ConsumeResult.LATER if message.body == b"5" else None

    await send(cluster, 12)
    settings = PushSettings(suspend_ms=20, max_reconsume_times=2)
    async with member(cluster, handle, ordered=True, settings=settings):
        await until(lambda: sum(map(len, seen.values())) == 14, 20)
        dead: list[ReceivedMessage] = []
        burial = PushConsumer(
            "undertaker", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST
        )
        burial.subscribe("%DLQ%g", lambda message: dead.append(message))
        async with burial:
            await until(lambda: len(dead) == 1, 20)
    assert {b"-".join(bodies) for bodies in seen.values()} == {
        b"0-4-8",
        b"1-5-5-5-9",
        b"2-6-10",
        b"3-7-11",
    }
    assert dead[0].body == b"5"


async def test_every_broadcast_member_gets_everything(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """And after a restart only what is new."""
    one, two = Counter[bytes](), Counter[bytes]()
    settings = PushSettings(offsets_folder=str(tmp_path / "offsets"))
    options = {"model": MessageModel.BROADCASTING, "settings": settings}
    await send(cluster, 40)
    async with (
        member(cluster, lambda message: one.update([message.body]), name="one", **options),
        member(cluster, lambda message: two.update([message.body]), name="two", **options),
    ):
        await until(lambda: len(one) == len(two) == 40, 20)
    await send(cluster, 4)
    async with member(cluster, lambda message: one.update([message.body]), name="one", **options):
        await until(lambda: sum(one.values()) == 44, 20)
        await asyncio.sleep(0.05)
    assert sum(one.values()) == 44 and sum(two.values()) == 40


@pytest.mark.parametrize(
    ("model", "consume_from", "old"),
    [
        # a broker answers 0 to a new group while the queue's first message is in its memory
        (MessageModel.CLUSTERING, ConsumeFrom.LAST, True),
        (MessageModel.CLUSTERING, ConsumeFrom.TIMESTAMP, True),
        (MessageModel.CLUSTERING, ConsumeFrom.FIRST, True),
        (MessageModel.BROADCASTING, ConsumeFrom.LAST, False),
        (MessageModel.BROADCASTING, ConsumeFrom.TIMESTAMP, False),
        (MessageModel.BROADCASTING, ConsumeFrom.FIRST, True),
    ],
)
async def test_a_new_group_begins_by_the_rules_of_brokers(
    cluster: EmbeddedCluster,
    tmp_path: Path,
    model: MessageModel,
    consume_from: ConsumeFrom,
    old: bool,
) -> None:
    """Where it says, except where the broker knows better."""
    await send(cluster, 8)
    bodies = Counter[bytes]()
    await asyncio.sleep(0.002)  # the time to begin at lies behind all of them
    consumer = PushConsumer(
        "new",
        namesrv=cluster.namesrv_addr,
        settings=PushSettings(offsets_folder=str(tmp_path / "offsets")),
        consume_from=consume_from,
        consume_timestamp_ms=wall_clock_ms(),
        model=model,
    )
    consumer.subscribe("t", lambda message: bodies.update([message.body]))
    async with consumer:
        await until(lambda: len(consumer.queues()) == 4)
        await send(cluster, 4)
        await until(lambda: sum(bodies.values()) == (12 if old else 4))
    assert bodies[b"0"] == (2 if old else 1)
