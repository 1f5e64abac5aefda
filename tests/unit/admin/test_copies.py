"""Copies and resends that are interrupted at any step: each message is there once at the end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aerobee.admin import AdminClient, copies
from aerobee.admin.copies import COPIED_FROM, TopicCopy, as_it_is, place_of, with_producer
from aerobee.admin.dead_letters import (
    RESENDS,
    origin_topic,
    reason_of,
    resend_rule,
)
from aerobee.admin.reading import MessageFilter
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.client.errors import ClientError, InvalidUse
from aerobee.client.settings import ClientSettings, PushSettings
from aerobee.remoting.words import DLQ_PREFIX
from aerobee.testing import EmbeddedCluster

COUNT = 60


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and two brokers, with a source of messages and an empty target."""
    async with EmbeddedCluster(brokers=2, root=tmp_path) as running:
        await running.create_topic("source", 2)
        await running.create_topic("target", 2)
        async with Producer("test", namesrv=running.namesrv_addr) as producer:
            queues = await producer.fetch_queues("source")
            for number in range(COUNT):
                message = Message("source", b"%d" % number, tags="t", keys=f"key-{number}")
                await producer.send(message, queue=queues[number % len(queues)])
        yield running


async def copied(admin: AdminClient, topic: str = "target") -> list[ReceivedMessage]:
    """Return the messages of the target."""
    spans = await admin.message.spans(topic)
    return [each async for each in admin.message.browse(spans, MessageFilter())]


def a_copy(admin: AdminClient, limit: int | None = None) -> Any:
    """Return what copies the source to the target once."""
    job = TopicCopy(admin.copy_end, admin.copy_end, "source", "the-copy", as_it_is("target"))

    async def run() -> copies.CopyCounts:
        return await with_producer(
            list(admin.namesrv), ClientSettings(), lambda out: job.run(out, limit=limit)
        )

    return run


async def cancelled_copy(admin: AdminClient, wanted: int) -> None:
    """Copy, and be cancelled once so many messages are sent."""
    sending = as_it_is("target")

    def until_enough(message: ReceivedMessage) -> Message | None:
        if job.counts.sent >= wanted:
            running.cancel()
        return sending(message)

    job = TopicCopy(admin.copy_end, admin.copy_end, "source", "the-copy", until_enough)
    running = asyncio.ensure_future(with_producer(list(admin.namesrv), ClientSettings(), job.run))
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("after", [1, 7, COUNT - 1])
async def test_an_answer_that_is_lost_makes_no_double(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The message is stored and nobody knows: the next run finds it in the target."""
    send, sent = Producer.send, 0

    async def losing(self: Producer, message: Message, **others: Any) -> Any:
        nonlocal sent
        result = await send(self, message, **others)
        sent += 1
        if sent == after:
            raise ClientError("the answer is lost")
        return result

    async with AdminClient(cluster.namesrv_addr) as admin:
        monkeypatch.setattr(Producer, "send", losing)
        with pytest.raises(ClientError, match="the answer is lost"):
            await a_copy(admin)()
        counts = await a_copy(admin)()
        assert counts.there >= 1
        found = await copied(admin)
        assert Counter(each.body for each in found) == {b"%d" % n: 1 for n in range(COUNT)}
        assert (await a_copy(admin)()).sent == 0


async def test_a_copy_that_dies_before_it_commits_makes_no_double(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed has told the brokers nothing of what it sent."""

    async def dead(*_: object) -> None:
        raise ClientError("killed")

    async with AdminClient(cluster.namesrv_addr) as admin:
        with monkeypatch.context() as killed:
            killed.setattr(TopicCopy, "_commit", dead)
            with pytest.raises(ClientError, match="killed"):
                await a_copy(admin)()
        assert await copied(admin)
        await a_copy(admin)()
        found = await copied(admin)
        assert Counter(each.body for each in found) == {b"%d" % n: 1 for n in range(COUNT)}


async def test_a_copy_that_is_cancelled_goes_on(cluster: EmbeddedCluster) -> None:
    """Wherever Ctrl-C meets it."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        for wanted in (1, 10, 20):
            await cancelled_copy(admin, wanted)
        await a_copy(admin)()
        found = await copied(admin)
        assert Counter(each.body for each in found) == {b"%d" % n: 1 for n in range(COUNT)}


async def test_a_copy_keeps_the_order_of_each_queue_and_what_is_new_is_added(
    cluster: EmbeddedCluster,
) -> None:
    """Queue by queue, with tag and keys; the original is named."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        assert (await a_copy(admin, limit=20)()).sent == 20
        assert (await a_copy(admin)()).sent == COUNT - 20
        async with Producer("test", namesrv=cluster.namesrv_addr) as producer:
            await producer.send(Message("source", b"new"))
        assert (await a_copy(admin)()).sent == 1
        found = await copied(admin)
        originals = {
            (each.queue[1:], each.queue_offset): each for each in await copied(admin, "source")
        }
        for each in found:
            place = place_of(each.properties[COPIED_FROM])
            assert place is not None and place[0] == "the-copy/source"
            original = originals[place[1:3], place[3]]
            assert (each.queue[1:], each.queue_offset) == (original.queue[1:], place[3])
            assert (each.body, each.tags, each.keys) == (
                original.body, original.tags, original.keys,
            )  # fmt: skip


async def test_a_topic_is_copied_to_another_cluster(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Whose queues may be other ones; interrupted it goes on there, too."""
    async with (
        EmbeddedCluster(root=tmp_path / "other") as other,
        AdminClient(cluster.namesrv_addr) as here,
        AdminClient(other.namesrv_addr) as there,
    ):
        await other.create_topic("target", 3)
        done: list[int] = []
        for limit in (13, None, None):
            job = TopicCopy(here.copy_end, there.copy_end, "source", "over", as_it_is("target"))
            await with_producer(other.namesrv_addr, ClientSettings(), partial(job.run, limit=limit))
            done.append(job.counts.sent)
        assert done == [13, COUNT - 13, 0]
        found = await copied(there)
        assert Counter(each.body for each in found) == {b"%d" % n: 1 for n in range(COUNT)}
        with pytest.raises(InvalidUse, match="make it first"):
            wrong = as_it_is("target-elsewhere")
            job = TopicCopy(here.copy_end, there.copy_end, "source", "lost", wrong)
            await with_producer(other.namesrv_addr, ClientSettings(), job.run)


async def test_a_copy_of_a_group_with_members_is_refused(cluster: EmbeddedCluster) -> None:
    """Its offsets would move under their hands."""

    async def handle(message: ReceivedMessage) -> None:
        pass

    consumer = PushConsumer("the-copy", namesrv=cluster.namesrv_addr)
    consumer.subscribe("source", handle)
    async with AdminClient(cluster.namesrv_addr) as admin, consumer:
        with pytest.raises(InvalidUse, match="has connected members"):
            await a_copy(admin)()


async def test_dead_letters_come_again_to_their_group_alone_and_not_for_ever(
    cluster: EmbeddedCluster,
) -> None:
    """Each once a run; what was sent again too often is left out."""
    seen: Counter[bytes] = Counter()
    others: Counter[bytes] = Counter()

    async def failing(message: ReceivedMessage) -> None:
        assert message.topic == "source"
        seen[message.body] += 1
        raise ValueError("cannot")

    async def handling(message: ReceivedMessage) -> None:
        others[message.body] += 1

    first = ConsumeFrom.FIRST
    settings = PushSettings(max_reconsume_times=0)
    address = cluster.namesrv_addr
    broken = PushConsumer("broken", namesrv=address, consume_from=first, settings=settings)
    broken.subscribe("source", failing)
    sound = PushConsumer("sound", namesrv=address, consume_from=first)
    sound.subscribe("source", handling)
    async with AdminClient(address) as admin, broken, sound:

        async def letters(count: int) -> list[ReceivedMessage]:
            found: list[ReceivedMessage] = []
            async with asyncio.timeout(30):
                while len(found) < count:
                    if await admin.route(DLQ_PREFIX + "broken") is not None:
                        found = await copied(admin, DLQ_PREFIX + "broken")
                    await asyncio.sleep(0.02)
            return found

        async def resend() -> copies.CopyCounts:
            job = TopicCopy(
                admin.copy_end,
                admin.copy_end,
                DLQ_PREFIX + "broken",
                "resends",
                resend_rule("broken", resends_max=2),
            )
            return await with_producer(list(admin.namesrv), ClientSettings(), job.run)

        found = await letters(COUNT)
        assert {origin_topic(each) for each in found} == {"source"}
        assert reason_of(found[0]).startswith("failed after")
        (listed,), failed = await admin.dead_letter.groups()
        assert (listed.group, listed.messages, failed) == ("broken", COUNT, {})
        for run in (1, 2):
            assert (await resend()).sent == COUNT
            found = await letters((run + 1) * COUNT)
            assert Counter(each.properties.get(RESENDS) for each in found)[str(run)] == COUNT
        counts = await resend()
        assert (counts.sent, counts.left_out) == (0, COUNT)
        assert (await resend()).left_out == 0
        assert seen == {b"%d" % n: 3 for n in range(COUNT)}
        assert others == {b"%d" % n: 1 for n in range(COUNT)}


@pytest.mark.parametrize("text", ["", "a/b/c", "a/b/c/x/1", "a/b/c/1/x", "a/b/c/1/²"])
def test_what_others_wrote_is_no_origin(text: str) -> None:
    """The property may be anybody's."""
    assert place_of(text) is None
