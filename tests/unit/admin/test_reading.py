"""Reading along, and brokers that go away meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.admin import AdminClient
from aerobee.admin.reading import MessageFilter
from aerobee.client import Message, Producer
from aerobee.client.errors import InvalidUse, Unavailable
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and two brokers that judge SQL."""
    settings = {"enable_property_filter": True}
    async with EmbeddedCluster(brokers=2, root=tmp_path, broker_settings=settings) as running:
        await running.create_topic("read", 2)
        yield running


async def send(cluster: EmbeddedCluster, numbers: range) -> None:
    """Send a message for each number, by turns to all queues."""
    async with Producer("test", namesrv=cluster.namesrv_addr) as producer:
        queues = await producer.fetch_queues("read")
        for number in numbers:
            message = Message("read", b"%d" % number, properties={"number": str(number)})
            await producer.send(message, queue=queues[number % len(queues)])


async def test_sql_is_judged_by_the_broker(cluster: EmbeddedCluster) -> None:
    """Over the properties of a message."""
    await send(cluster, range(20))
    async with AdminClient(cluster.namesrv_addr) as admin:
        spans = await admin.message.spans("read")
        wanted = MessageFilter(sql="number >= 15")
        found = [each.body async for each in admin.message.browse(spans, wanted)]
    assert sorted(found) == [b"%d" % number for number in range(15, 20)]


async def test_messages_are_followed_over_a_restart(cluster: EmbeddedCluster) -> None:
    """Nothing is given twice, and nothing is left out."""
    got: list[bytes] = []

    async def follow(admin: AdminClient) -> None:
        spans = await admin.message.spans("read")
        started.set()
        async for message in admin.message.follow(spans, MessageFilter()):
            got.append(message.body)

    started = asyncio.Event()
    await send(cluster, range(5))
    async with AdminClient(cluster.namesrv_addr) as admin:
        task = asyncio.ensure_future(follow(admin))
        await started.wait()
        await send(cluster, range(5, 15))
        await cluster.restart_broker(0)
        await send(cluster, range(15, 25))
        await until(lambda: len(got) == 20)
        task.cancel()
    assert sorted(map(int, got)) == list(range(5, 25))


async def test_a_broker_that_goes_away_ends_a_listing_with_its_name(
    cluster: EmbeddedCluster,
) -> None:
    """What came before is given; the error says who does not answer."""
    await send(cluster, range(400))
    async with AdminClient(cluster.namesrv_addr) as admin:
        spans = await admin.message.spans("read")
        got = 0
        with pytest.raises(Unavailable, match=cluster.broker_addrs[1]):
            async for _ in admin.message.browse(spans, MessageFilter()):
                got += 1
                if got == 10:
                    await cluster.brokers[1].stop()
    assert 10 <= got < 400


async def test_what_is_not_wanted_holds_nothing_up(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows a topic for one message in thousands reads as fast as the broker gives them."""
    monkeypatch.setattr("aerobee.admin.reading.FOLLOW_S", 5.0)
    wanted = MessageFilter(text=b"399")
    async with AdminClient(cluster.namesrv_addr) as admin:
        await send(cluster, range(1))
        spans = await admin.message.spans("read")
        await send(cluster, range(400))
        following = admin.message.follow(spans, wanted)
        async with asyncio.timeout(4):
            found = await anext(following)
        await following.aclose()
    assert b"399" in found.body


async def test_spans_are_of_what_is_there(cluster: EmbeddedCluster) -> None:
    """The newest ones of each queue, or an error for a queue that is not."""
    await send(cluster, range(20))
    async with AdminClient(cluster.namesrv_addr) as admin:
        spans = await admin.message.spans("read", newest=2)
        assert {(span.first, span.end) for span in spans} == {(3, 5)}
        with pytest.raises(InvalidUse, match="no such queue"):
            await admin.message.spans("read", queue_id=9)
        with pytest.raises(InvalidUse, match="not on 'broker-z'"):
            await admin.message.spans("read", broker="broker-z")
        with pytest.raises(InvalidUse, match="no topic 'unread'"):
            await admin.message.spans("unread")
