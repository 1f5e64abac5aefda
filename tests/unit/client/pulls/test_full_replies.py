"""Who asks brokers for full replies, and what comes of it."""

from pathlib import Path

import pytest
from support.consumers import Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    Message,
    Producer,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.codes import RequestCode
from aerobee.testing import EmbeddedCluster


@pytest.mark.parametrize(
    ("pull", "count", "asks"),
    [
        (PullSettings(), 32, "true"),
        (PullSettings(batch_messages=32), 32, None),
        (PullSettings(batch_messages=500), 500, None),
        (PullSettings(queue_messages_max=255), 32, None),
    ],
)
async def test_who_says_how_many_gets_no_more(
    cluster: FakeCluster, pull: PullSettings, count: int, asks: str | None
) -> None:
    """Nor does a queue that may hold few; brokers that know no full replies are asked for 32."""
    cluster.create("t", 1)
    fill(cluster, "t", 3)
    seen = Seen()
    consumer = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(pull=pull),
        consume_from=ConsumeFrom.FIRST,
    )
    consumer.subscribe("t", seen.handle)
    async with consumer:
        await until(lambda: len(seen.bodies) == 3)
    pulls = cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)
    asked = {(each.ext["maxMsgNums"], each.ext.get("AEROBEE_FULL_REPLY")) for each in pulls}
    assert asked == {(str(count), asks)}


@pytest.mark.parametrize(("batch", "largest"), [(None, 256), (32, 32), (300, 32)])
async def test_a_batch_is_what_a_pull_has_brought(
    tmp_path: Path, batch: int | None, largest: int
) -> None:
    """As many as a broker of ours gives, up to what the handler takes; each once, and in order."""
    sizes: list[int] = []
    bodies: list[bytes] = []

    async def handle(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        bodies.extend(each.body for each in messages)

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        async with Producer(namesrv=cluster.namesrv_addr) as producer:
            for begin in range(0, 1_000, 100):
                numbers = range(begin, begin + 100)
                await producer.send_many([Message("t", b"%d" % number) for number in numbers])
        consumer = PushConsumer(
            "g",
            namesrv=cluster.namesrv_addr,
            settings=PushSettings(pull=PullSettings(batch_messages=batch)),
            consume_from=ConsumeFrom.FIRST,
        )
        consumer.subscribe("t", handle, batch=1_024)
        async with consumer:
            await until(lambda: len(bodies) == 1_000)
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(1_000)]
    assert max(sizes) == largest
