"""Members that come back to a queue, on a new connection or after others had it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.members import RawMember, offset_of
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command

KEY = GroupQueue("G", "T", 0)
MESSAGES = 4


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with a few messages in queue 0 of topic T."""
    async with live_broker(tmp_path, handover_wait_millis=600) as broker:
        for at in range(MESSAGES):
            header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": at, "h": 0}
            await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


async def joined(live: LiveBroker, client_id: str, timeout_ms: int | None = 60_000) -> RawMember:
    """Return a member of ours, or of another kind, that has introduced itself."""
    member = RawMember(live.broker.port, client_id, timeout_ms=timeout_ms)
    await member.beat()
    return member


async def took(member: RawMember) -> None:
    """Ask for queue 0 until it is given."""
    while (await member.start_of()).code == ResponseCode.HANDOVER_PENDING:
        pass


async def committed_by_a_tool(live: LiveBroker, offset: int) -> None:
    """Commit on a connection that is no member."""
    header = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": offset}
    await live.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def committed(live: LiveBroker) -> int | None:
    """Return what the group has committed in queue 0."""
    return live.broker.context.tables.offsets.committed(*KEY)


def owner(live: LiveBroker) -> str:
    """Return the client that owns queue 0."""
    holder = live.broker.context.consumers.handovers.owner(KEY)
    return holder.client_id if holder is not None else ""


def sent_to(reply: Command) -> int:
    """Return where a pull is sent that must not read where it is."""
    assert reply.code == ResponseCode.PULL_OFFSET_MOVED
    return int(reply.ext["nextBeginOffset"])


async def lost(live: LiveBroker, old: RawMember, new: RawMember) -> "asyncio.Task[Command]":
    """Let `new` have the queue that `old` does not give up; return a pull of old's that waits."""
    await old.start_of()
    await took(new)
    assert owner(live) == new.client_id
    held = asyncio.create_task(old.pull(1, suspend_ms=60_000, commit=0))
    await until(lambda: live.broker.context.pulls.holds.count == 1)
    return held


async def test_who_has_a_queue_again_reads_nothing_that_others_have_done(live: LiveBroker) -> None:
    """A pull that waited is sent to what is committed; one that comes there reads."""
    old, new = await joined(live, "c1", 0), await joined(live, "c2")
    async with old, new:
        held = await lost(live, old, new)
        await new.commit(3)
        await new.unlock(0)
        assert sent_to(await held) == 3
        assert owner(live) == "c1"
        reply = await old.pull(3, commit=3)
        assert (reply.code, reply.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, "4")
        assert committed(live) == 3


async def test_a_pull_that_comes_after_the_others_have_gone_is_sent_on_too(
    live: LiveBroker,
) -> None:
    """As one that waited; RocketMQ's clients of every kind take the new offset."""
    old, new = await joined(live, "c1", 0), await joined(live, "c2")
    async with old, new:
        await old.start_of()
        await took(new)
        await new.commit(3)
        await new.unlock(0)
        assert sent_to(await old.pull(1, commit=0)) == 3
        assert (owner(live), committed(live)) == ("c1", 3)


async def test_where_it_pulls_afterwards_is_its_own_affair(live: LiveBroker) -> None:
    """One that seeks back is sent on once, not for ever."""
    old, new = await joined(live, "c1", 0), await joined(live, "c2")
    async with old, new:
        held = await lost(live, old, new)
        await new.commit(3)
        await new.unlock(0)
        assert sent_to(await held) == 3
        assert (await old.pull(0)).code == ResponseCode.SUCCESS


async def test_who_is_not_behind_the_others_reads_on(live: LiveBroker) -> None:
    """They have committed less than it has fetched: what it does now is done once."""
    old, new = await joined(live, "c1", 0), await joined(live, "c2")
    async with old, new:
        held = await lost(live, old, new)
        await new.commit(1)
        await new.unlock(0)
        assert (await held).code == ResponseCode.SUCCESS
        assert (await old.pull(0)).code == ResponseCode.SUCCESS


async def test_the_owners_next_connection_owns_the_queue(live: LiveBroker) -> None:
    """The one before may be half open for long: nothing that comes on it counts."""
    before, after = await joined(live, "c1"), await joined(live, "c1")
    async with before, after:
        await before.start_of()
        await before.commit(2)
        assert (await after.pull(1, commit=1)).code == ResponseCode.SUCCESS
        assert committed(live) == 2  # for it may have been behind
        await before.commit(1)
        assert committed(live) == 2
        await after.commit(3)
        assert committed(live) == 3
        assert dict(live.broker.context.consumers.handovers.given) == {"reconnected": 1}
        assert live.broker.context.consumers.handovers.commits_ignored == 2


async def test_who_comes_back_to_a_queue_of_somebody_else_waits(live: LiveBroker) -> None:
    """It had the queue before its connection was cut, and has not heard that it is gone."""
    new, back = await joined(live, "c2"), await joined(live, "c1")
    async with new, back:
        await new.start_of()
        await new.commit(1)
        assert (await back.pull(3, commit=3)).code == ResponseCode.PULL_NOT_FOUND
        await back.commit(4)
        assert (owner(live), committed(live)) == ("c2", 1)
        await committed_by_a_tool(live, 2)
        assert committed(live) == 2
        await back.leave()
        await new.commit(3)
        assert committed(live) == 3


async def test_who_comes_back_commits_nothing_behind_others(live: LiveBroker) -> None:
    """Those others have gone, and nobody owns the queue; tools commit what they like."""
    async with await joined(live, "c1") as back:
        await committed_by_a_tool(live, 3)
        await back.commit(2)
        assert committed(live) == 3
        await committed_by_a_tool(live, 1)
        assert committed(live) == 1
        await back.commit(2)
        assert committed(live) == 2
        assert live.broker.context.consumers.handovers.commits_ignored == 1


async def test_who_comes_back_to_a_free_queue_owns_it(live: LiveBroker) -> None:
    """It reads where it is, as one that has sought back, and commits nothing behind others."""
    back, new = await joined(live, "c1"), await joined(live, "c2")
    async with back, new:
        await committed_by_a_tool(live, 3)
        assert (await back.pull(1)).code == ResponseCode.SUCCESS
        assert owner(live) == "c1"
        await back.commit(2)
        assert committed(live) == 3
        await back.commit(3)
        await back.commit(2)  # it has been where the others were
        assert committed(live) == 2
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await back.unlock(0)
        assert offset_of(await asked) == 2


@pytest.mark.parametrize(
    "uses",
    [
        lambda member: member.commit(2),
        lambda member: member.pull(1, commit=2),
    ],
)
async def test_those_who_share_no_queues_come_back_as_they_like(
    live: LiveBroker, uses: Callable[[RawMember], asyncio.Future[Command]]
) -> None:
    """A pull consumer is new, too: it owns nothing, and what it commits counts."""
    async with RawMember(live.broker.port, "c1") as other:
        other.version = 0
        await other.beat()
        await committed_by_a_tool(live, 3)
        assert (await uses(other)).code == ResponseCode.SUCCESS
        assert (owner(live), committed(live)) == ("", 2)


async def test_where_nothing_is_held_everybody_commits(live: LiveBroker) -> None:
    """With handoverWaitMillis=0 nobody is a former owner, and nobody comes late."""
    live.broker.live.change(live.broker.settings.changed({"handoverWaitMillis": "0"}))
    one, two = await joined(live, "c1"), await joined(live, "c2")
    async with one, two:
        await one.commit(3)
        await two.commit(2)
        assert (await one.pull(0, commit=1)).code == ResponseCode.SUCCESS
        assert (owner(live), committed(live)) == ("", 1)
