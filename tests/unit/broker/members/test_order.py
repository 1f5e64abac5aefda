"""A client's comings and goings count in the order in which it says them, and by a steady clock."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker, slow_announcements
from support.waiting import until

from aerobee.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    ProducerTableInfo,
    SubscriptionData,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command

LEAVE = {"clientID": "c1", "consumerGroup": "g", "producerGroup": "p"}


def heartbeat(*groups: str, topics: tuple[str, ...] = ("t",), version: int = 1) -> HeartbeatData:
    """A heartbeat of client c1: consumers of some groups, and the producer p."""
    subscriptions = [
        SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics
    ]
    return HeartbeatData(
        client_id="c1",
        consumer_data_set=[
            ConsumerData(group_name=group, subscription_data_set=subscriptions) for group in groups
        ],
        producer_data_set=[ProducerData(group_name="p")],
    )


async def begin(live: LiveBroker, data: HeartbeatData) -> "asyncio.Task[Command]":
    """Send a heartbeat that waits; return when the broker has it."""
    waiting = len(live.broker.context.consumers.members.waiting)
    task = asyncio.create_task(live.ask(RequestCode.HEART_BEAT, body=data))
    await until(
        lambda: len(live.broker.context.consumers.members.waiting) > waiting, what="its arrival"
    )
    return task


async def test_who_has_left_is_gone_though_its_heartbeat_waited(tmp_path: Path) -> None:
    """A member that comes and goes at once is none for two minutes more; its other groups stay."""
    async with slow_announcements(tmp_path) as live:
        joining = await begin(live, heartbeat("g", "other"))
        assert (await live.ask(RequestCode.UNREGISTER_CLIENT, LEAVE)).code == ResponseCode.SUCCESS
        assert not joining.done()
        assert (await joining).code == ResponseCode.SUCCESS
        members = live.broker.context.consumers.members
        assert (members.client_ids("g"), members.client_ids("other")) == ([], ["c1"])
        assert members.producers() == {}
        assert len(members.waiting) == 0


async def test_who_comes_back_is_there(tmp_path: Path) -> None:
    """A heartbeat behind the departure counts, whether it has to wait or not."""
    async with slow_announcements(tmp_path) as live:
        first = await begin(live, heartbeat("g"))
        await live.ask(RequestCode.UNREGISTER_CLIENT, LEAVE)
        await live.ask(RequestCode.HEART_BEAT, body=heartbeat("g"))
        await first
        assert live.broker.context.consumers.members.client_ids("g") == ["c1"]
        assert list(live.broker.context.consumers.members.producers()) == ["p"]


async def test_an_older_heartbeat_takes_no_topic_away(tmp_path: Path) -> None:
    """One that waited for the disk comes to its end after a newer one with one topic more."""
    async with slow_announcements(tmp_path) as live:
        older = await begin(live, heartbeat("g", topics=("t",)))
        await live.ask(RequestCode.HEART_BEAT, body=heartbeat("g", topics=("t", "u"), version=2))
        members = live.broker.context.consumers.members
        assert members.subscription("g", "u") is not None
        await older
        assert members.subscription("g", "u") is not None


async def test_heartbeats_that_wait_count_in_their_order(tmp_path: Path) -> None:
    """Whichever of them is kept first."""
    async with slow_announcements(tmp_path) as live:
        older = await begin(live, heartbeat("g", topics=("t",)))
        newer = await begin(live, heartbeat("g", "new", topics=("t", "u"), version=2))
        await asyncio.gather(older, newer)
        members = live.broker.context.consumers.members
        assert members.subscription("g", "u") is not None
        assert members.client_ids("new") == ["c1"]
        assert len(members.waiting) == 0


@pytest.mark.parametrize("hours", [2, -2])
async def test_a_step_of_the_machines_clock_expires_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Whoever sets the time does not cut off every client; reports still say the time of day."""
    async with live_broker(tmp_path) as live:
        await live.ask(RequestCode.HEART_BEAT, body=heartbeat("g"))
        real_ns: Callable[[], int] = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)
        members = live.broker.context.consumers.members
        assert members.expire() == []
        assert members.client_ids("g") == ["c1"]
        now_ms = time.time_ns() // 1_000_000
        reply = await live.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        (producer,) = decode_body(ProducerTableInfo, reply.body).data["p"]
        assert now_ms - 60_000 < producer.last_update_timestamp <= now_ms + 60_000
