"""Members of other projects that go on while others take long to finish."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.remoting.codes import RequestCode, ResponseCode

NOTHING, FOUND = ResponseCode.PULL_NOT_FOUND, ResponseCode.SUCCESS


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker where nobody has to give up a queue that it works on."""
    async with live_broker(tmp_path, handover_wait_millis=20_000) as broker:
        yield broker


async def send(live: LiveBroker, queue_id: int) -> None:
    """Put one more message into a queue of topic T."""
    header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1, "h": 0}
    assert (await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")).code == FOUND


async def fetch(live: LiveBroker, member: RawMember, queue_id: int) -> None:
    """Let a member take a queue and fetch its one message."""
    await send(live, queue_id)
    await member.start_of(queue_id)
    assert (await member.pull(0, queue_id)).code == FOUND


async def goes_on(member: RawMember, queue_id: int, offset: int) -> int:
    """Pull with all consumed before `offset` until something comes; return the code of that."""
    while True:
        reply = await member.pull(offset, queue_id, suspend_ms=60_000, commit=offset)
        if reply.code != NOTHING or member.told:
            return reply.code


async def test_members_go_on_batch_by_batch_while_others_take_long(live: LiveBroker) -> None:
    """And nobody hears of the change before the last of them has finished once more."""
    quick, slow, new = (RawMember(live.broker.port, name) for name in ("c1", "c2", "c3"))
    async with quick, slow, new:
        for member in (quick, slow):
            await member.beat()
            await member.hears(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        await fetch(live, quick, 0)
        await fetch(live, slow, 1)
        quick.told.clear()
        slow.told.clear()
        await new.beat()
        for offset in (1, 2):
            await send(live, 0)
            assert await goes_on(quick, 0, offset) == FOUND
            # what it has just fetched is under way: there is nothing more before it is done
            assert (await quick.pull(offset + 1, suspend_ms=60_000, commit=offset)).code == NOTHING
        assert not quick.told and not slow.told and not new.told
        finishing = asyncio.create_task(goes_on(slow, 1, 1))
        await until(lambda: live.broker.context.tables.offsets.committed("G", "T", 1) == 1)
        await send(live, 0)
        last = asyncio.create_task(goes_on(quick, 0, 3))
        for member in (quick, slow, new):
            await member.hears(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        finishing.cancel()
        last.cancel()
