"""Holding is turned off, and on again, while queues move."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember, offset_of
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.codes import RequestCode, ResponseCode

KEY = GroupQueue("G", "T", 0)
WAIT_MS = 60_000  # longer than any test lasts
MESSAGES = 3


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with a few messages in queue 0 of topic T, that lets nobody finish first."""
    async with live_broker(tmp_path, handover_wait_millis=WAIT_MS, handover_drain_millis=0) as live:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        for _ in range(MESSAGES):
            await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield live


async def joined(live: LiveBroker, client_id: str) -> RawMember:
    """Return a member that has introduced itself."""
    member = RawMember(live.broker.port, client_id)
    await member.beat()
    return member


async def wait_for(live: LiveBroker, millis: int) -> None:
    """Change the setting as an operator does."""
    body = f"handoverWaitMillis={millis}\n".encode()
    assert (await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == 0


def owner(live: LiveBroker) -> str:
    """Return the client that owns queue 0."""
    holder = live.broker.context.consumers.handovers.owner(KEY)
    return holder.client_id if holder is not None else ""


async def test_who_waits_is_answered_when_nothing_is_held_any_more(live: LiveBroker) -> None:
    """Who asks gets the offset, and the owner, whose pulls have waited, reads on."""
    handovers = live.broker.context.consumers.handovers
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        assert offset_of(await old.start_of()) == 0
        asked = new.starting()
        await until(lambda: handovers.waiting == 1)
        pulling = asyncio.create_task(old.pull(0, suspend_ms=WAIT_MS))
        await until(lambda: live.broker.context.pulls.holds.count == 1)
        await wait_for(live, 0)
        async with asyncio.timeout(5):
            assert offset_of(await asked) == 0
            assert (await pulling).code == ResponseCode.SUCCESS
        assert handovers.owned == handovers.waiting == 0


async def test_a_former_owner_is_none_when_nothing_is_held_any_more(live: LiveBroker) -> None:
    """It has the queue again, and neither its pulls wait for the other nor are commits ignored."""
    await wait_for(live, 1)
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        for member in (old, new):
            assert offset_of(await member.start_of()) == 0
            assert (await member.pull(0)).code == ResponseCode.SUCCESS
        assert owner(live) == "c2"
        await wait_for(live, 0)
        assert offset_of(await old.start_of()) == 0
        assert (await old.pull(0)).code == ResponseCode.SUCCESS
        await old.commit(MESSAGES)
        assert offset_of(await old.start_of()) == MESSAGES


async def test_who_pulls_owns_a_queue_when_queues_are_held_again(live: LiveBroker) -> None:
    """It took the queue when nobody looked; who asks now waits for it as for any owner."""
    await wait_for(live, 0)
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        assert offset_of(await old.start_of()) == 0
        live.broker.context.consumers.handovers.fresh.clear()  # the two have been there for long
        await wait_for(live, WAIT_MS)
        assert (await old.pull(0)).code == ResponseCode.SUCCESS
        assert owner(live) == "c1"
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await old.unlock(0)
        assert offset_of(await asked) == 0
