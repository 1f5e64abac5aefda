"""Pages of messages: every one once, in order, from either end, and never without an end."""

import pytest

from aerobee.admin import AdminClient
from aerobee.admin.reading import MessageFilter, QueueSpan
from aerobee.client import Message, Producer
from aerobee.client.errors import InvalidUse
from aerobee.console.messages import looking
from aerobee.console.messages.looking import LookedAt, LookFor, look_at, look_newest, look_oldest
from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def cluster(rocketmq: ClusterThread) -> ClusterThread:
    """A topic of four queues, in which 90 messages lie unevenly."""
    rocketmq.create_topic("looked-at", 4)

    async def fill() -> None:
        async with Producer("test", namesrv=rocketmq.namesrv_addr) as producer:
            queues = await producer.fetch_queues("looked-at")
            for first in range(0, 90, 3):
                some = [
                    Message("looked-at", b"%d" % each, tags=f"t{each % 5}")
                    for each in range(first, first + 3)
                ]
                await producer.send_many(some, queue=queues[min(first % 7, 3)])

    rocketmq.call(fill())
    return rocketmq


async def pages(
    admin: AdminClient, wanted: MessageFilter, limit: int, *, newest: bool
) -> list[LookedAt]:
    """Return page after page, as somebody asks who follows the links."""
    found: list[LookedAt] = []
    at: int | None = None
    skip = 0
    while True:
        spans = await spans_to(admin, at) if newest else await spans_from(admin, at)
        asked = LookFor(wanted=wanted, from_ms=at, skip=skip, limit=limit)
        page = await (look_newest if newest else look_oldest)(admin.message, spans, asked)
        found.append(page)
        if page.next_ms is None:
            return found
        at, skip = page.next_ms, page.skip
        assert len(found) < 60


async def spans_from(admin: AdminClient, at: int | None) -> list[QueueSpan]:
    """Return spans that begin at a time."""
    return await admin.message.spans("looked-at", since_ms=at)


async def spans_to(admin: AdminClient, at: int | None) -> list[QueueSpan]:
    """Return spans that end with a time."""
    whole = await admin.message.spans("looked-at")
    if at is None:
        return whole
    ends = await admin.message.spans("looked-at", since_ms=at + 1)
    return [
        QueueSpan(span.queue, span.address, span.first, end.first)
        for span, end in zip(whole, ends, strict=True)
    ]


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("limit", [4, 25])
async def test_every_message_is_on_one_page(
    cluster: ClusterThread, newest: bool, limit: int
) -> None:
    """Also where many were stored in one millisecond, which batches are."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        found = await pages(admin, MessageFilter(), limit, newest=newest)
    rows = [row for page in found for row in page.rows]
    assert len({row.place for row in rows}) == len(rows) == 90
    assert [row.stored_ms for row in rows] == sorted(
        (row.stored_ms for row in rows), reverse=newest
    )
    assert all(len(page.rows) == limit for page in found[:-1] if not page.stopped)


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
async def test_a_filter_leaves_out_the_others(cluster: ClusterThread, newest: bool) -> None:
    """And a page is filled up all the same."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        found = await pages(admin, MessageFilter(tags="t3"), 6, newest=newest)
    rows = [row for page in found for row in page.rows]
    assert sorted(int(row.beginning) for row in rows) == list(range(3, 90, 5))
    assert {row.tags for row in rows} == {"t3"}


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
async def test_looking_ends_though_nothing_is_found(
    cluster: ClusterThread, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many messages; the next page goes on there, and the last one has found nothing."""
    monkeypatch.setattr(looking, "LOOKED_MAX", 20)
    async with AdminClient(cluster.namesrv_addr) as admin:
        found = await pages(admin, MessageFilter(text=b"nowhere"), 4, newest=newest)
    assert len(found) > 1 and found[0].stopped and not found[-1].stopped
    assert not any(page.rows for page in found)


async def test_time_is_short_for_a_silent_broker(
    cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read until then is shown, and said to be no end."""
    monkeypatch.setattr(looking, "LOOK_S", 0.0)
    async with AdminClient(cluster.namesrv_addr) as admin:
        spans = await spans_from(admin, None)
        for look in (look_newest, look_oldest):
            page = await look(admin.message, spans, LookFor())
            assert page.stopped and page.rows == []


async def test_one_message_is_looked_at(cluster: ClusterThread) -> None:
    """By its place; what is not there is told with what is."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        spans = await spans_from(admin, None)
        span = next(each for each in spans if each.end > 2)
        topic, broker, queue_id = span.queue
        message = await look_at(admin.message, topic, broker, queue_id, 2)
        assert message.queue_offset == 2
        with pytest.raises(InvalidUse, match=f"from 0 to {span.end - 1}"):
            await look_at(admin.message, topic, broker, queue_id, span.end)
