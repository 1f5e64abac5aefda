"""The path of a message: from its first record to the groups that had trouble with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aerobee.admin import AdminClient
from aerobee.admin.tracks import GroupTrack, MessageTrack, RecordKind, TrackState, first_topic
from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Later,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
)
from aerobee.client.errors import RouteMissing
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.words import DLQ_PREFIX
from aerobee.testing import EmbeddedCluster

TRACED = ClientSettings(
    enable_trace=True, trace_batch_messages=1, rebalance_gap_ms=20, offsets_interval_ms=200
)
SETTINGS = {"message_delay_level": " ".join(["1s"] * 18), "trace_topic_enable": True}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and a broker whose delays are short."""
    async with EmbeddedCluster(root=tmp_path, broker_settings=SETTINGS) as running:
        await running.create_topic("orders", 2)
        yield running


async def told_of(look: Callable[[], Awaitable[MessageTrack | None]]) -> MessageTrack:
    """Return the first path that is whole."""
    async with asyncio.timeout(30):
        while True:
            if (found := await look()) is not None:
                return found
            await asyncio.sleep(0.05)


def consumer(
    cluster: EmbeddedCluster,
    group: str,
    handler: Callable[[ReceivedMessage], Later | None],
    tags: str = "*",
) -> PushConsumer:
    """Return a consumer of the topic that gives up after one retry."""
    made = PushConsumer(
        group,
        namesrv=cluster.namesrv_addr,
        client=TRACED,
        consume_from=ConsumeFrom.FIRST,
        settings=PushSettings(max_reconsume_times=1),
    )
    made.subscribe("orders", handler, tags=tags)
    return made


async def track(admin: AdminClient, topic: str, message_id: str) -> MessageTrack:
    """Return the path of a message that is found by its id."""
    (message,) = (await admin.message.find(topic, message_id=message_id)).messages
    return await admin.track.of(message)


def of(found: MessageTrack, group: str) -> GroupTrack:
    """Return a group's part of a path."""
    return next(each for each in found.groups if each.group == group)


async def test_each_group_has_its_part(cluster: EmbeddedCluster) -> None:
    """One consumed it, one wanted another tag, one gave up; the dead letter tells the same."""
    failed: list[int] = []

    def fail(message: ReceivedMessage) -> Later:
        failed.append(message.reconsume_times)
        return Later(delay_level=1)

    groups = (
        consumer(cluster, "ships", lambda message: None),
        consumer(cluster, "picky", lambda message: None, tags="other"),
        consumer(cluster, "fails", fail),
    )
    async with (
        AdminClient(cluster.namesrv_addr) as admin,
        Producer("p", namesrv=cluster.namesrv_addr, client=TRACED) as producer,
        groups[0], groups[1], groups[2],
    ):  # fmt: skip
        queue = (await producer.fetch_queues("orders"))[1]
        sent = await producer.send(Message("orders", b"x", tags="new", keys="order-1"), queue=queue)
        await producer.send(Message("orders", b"y", tags="other"), queue=queue)

        async def found() -> MessageTrack | None:
            told = await track(admin, "orders", sent.message_id)
            states = {each.group: each.state for each in told.groups}
            whole = states == {
                "ships": TrackState.CONSUMED,
                "picky": TrackState.CONSUMED_BUT_FILTERED,
                "fails": TrackState.DEAD_LETTER,
            }
            passed = all(  # offsets are committed now and then
                record.passed is not False for each in told.groups for record in each.records
            )
            return told if whole and passed and len(told.traces) >= 4 else None

        told = await told_of(found)
        assert set(failed) == {0, 1} and told.problems == []
        assert [(each.kind, each.offset) for each in told.records] == [(RecordKind.SENT, 0)]
        assert told.records[0].queue_id == sent.queue.queue_id
        kinds = [(each.kind, each.attempt, each.passed) for each in of(told, "fails").records]
        assert kinds == [
            (RecordKind.WAITING, 1, True),
            (RecordKind.RETRY, 1, True),
            (RecordKind.DEAD_LETTER, 2, None),
        ]
        assert of(told, "ships").members == 1 and of(told, "ships").records == []
        said = [(each.what, each.group, each.attempt, each.succeeded) for each in told.traces]
        assert said[0] == ("sent", "p", 0, True)
        assert sorted(said[1:]) == [
            ("handled", "fails", 0, False),
            ("handled", "fails", 1, False),
            ("handled", "ships", 0, True),
        ]
        again = await track(admin, DLQ_PREFIX + "fails", sent.message_id)
        assert (again.topic, again.records) == ("orders", told.records)
        assert of(again, "fails").state is TrackState.DEAD_LETTER
    async with AdminClient(cluster.namesrv_addr) as admin:
        assert of(await track(admin, "orders", sent.message_id), "ships").members == 0


async def test_a_message_that_waits_for_its_time(cluster: EmbeddedCluster) -> None:
    """It has a record before the one that groups get, and nobody is past it."""
    async with (
        AdminClient(cluster.namesrv_addr) as admin,
        Producer("p", namesrv=cluster.namesrv_addr) as producer,
    ):
        sent = await producer.send(Message("orders", b"x", delay_level=1))

        async def arrived() -> MessageTrack | None:
            found = await admin.message.find("orders", message_id=sent.message_id)
            return await admin.track.of(found[0]) if found.messages else None

        told = await told_of(arrived)
        assert [each.kind for each in told.records] == [RecordKind.WAITING, RecordKind.SENT]
        assert told.groups == []


async def test_nothing_is_found_where_nothing_is(cluster: EmbeddedCluster) -> None:
    """An id that nobody gave; a message that nobody had trouble with is of its own topic."""
    async with (
        AdminClient(cluster.namesrv_addr) as admin,
        Producer("p", namesrv=cluster.namesrv_addr) as producer,
    ):
        assert not await admin.message.find("orders", message_id="A" * 32)
        with pytest.raises(RouteMissing):  # of pop consumers, whose names have a sign of their own
            await admin.message.find("%RETRY%ships+orders", message_id="A" * 32)
        sent = await producer.send(Message("orders", b"x"))
        (message,) = await admin.message.find("orders", message_id=sent.message_id)
        assert first_topic(message) == "orders"
