"""Hand-overs asked of a real broker over real sockets: what members of every kind are answered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember, offset_of
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import ConnectionLost
from aerobee.remoting.net.connection import Connection

WAIT_MS = 600  # short, for tests that see the deadline pass


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with topic T."""
    async with live_broker(tmp_path, handover_wait_millis=WAIT_MS) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


async def joined(live: LiveBroker, client_id: str, timeout_ms: int | None = None) -> RawMember:
    """Return a member that has introduced itself."""
    member = RawMember(live.broker.port, client_id, timeout_ms=timeout_ms)
    await member.beat()
    return member


async def test_the_offset_waits_for_the_owners_last_commit(live: LiveBroker) -> None:
    """A Java client that loses a queue asks for the members, then commits: that is its release."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        assert offset_of(await old.start_of()) == 0
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await old.commit(0)  # the timer's: it has not heard of the change yet
        assert not asked.done()
        await old.members()
        await old.commit(1)
        assert offset_of(await asked) == 1
        await old.commit(0)
        assert live.broker.context.tables.offsets.committed("G", "T", 0) == 1
        assert live.broker.context.consumers.handovers.commits_ignored == 1


async def test_a_member_of_ours_is_told_to_ask_again(live: LiveBroker) -> None:
    """Until the owner unlocks the queue; its commits in between count."""
    old, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
    async with old, new:
        assert (await old.beat()).ext["AEROBEE_HANDOVER"] == "true"
        await old.start_of()
        pending = await new.start_of()
        assert pending.code == ResponseCode.HANDOVER_PENDING
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await old.members()
        await old.commit(1)
        assert not asked.done()
        await old.unlock(0)
        assert offset_of(await asked) == 1


async def test_others_get_an_offset_at_the_deadline(live: LiveBroker) -> None:
    """Never an error, not even where there is no offset: that is code 22."""
    old, new = await joined(live, "c1", 60_000), await joined(live, "c2")
    async with old, new:
        await old.start_of(0)
        await old.start_of(1)
        assert offset_of(await new.start_of(0)) == 0
        assert (await new.start_of(1)).code == ResponseCode.QUERY_NOT_FOUND
        assert dict(live.broker.context.consumers.handovers.given) == {"deadline": 2}


async def test_an_owner_of_ours_has_its_own_time(live: LiveBroker) -> None:
    """After that the queue is given away, and its commits count no more."""
    old, new = await joined(live, "c1", 200), await joined(live, "c2", 60_000)
    async with old, new:
        await old.start_of()
        reply = await new.start_of()
        while reply.code == ResponseCode.HANDOVER_PENDING:
            reply = await new.start_of()
        assert offset_of(reply) == 0
        await old.commit(1)
        assert live.broker.context.tables.offsets.committed("G", "T", 0) is None
        assert dict(live.broker.context.consumers.handovers.given) == {"overdue": 1}


async def test_an_owner_that_dies_is_not_waited_for(live: LiveBroker) -> None:
    """Its connection ends: the queue is given to who asks."""
    old, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
    async with new:
        await old.start_of()
        await old.commit(1)
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await old.close()
        assert offset_of(await asked) == 1
    await until(
        lambda: live.broker.context.consumers.handovers.is_empty, what="the tables to be empty"
    )


async def test_the_last_commit_of_a_member_that_left_counts(live: LiveBroker) -> None:
    """Go unregisters first and commits after it."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        await old.start_of(0)
        await old.start_of(1)
        await old.leave()
        asked, other = new.starting(0), new.starting(1)
        await until(lambda: live.broker.context.consumers.handovers.waiting == 2)
        await old.commit(1)
        assert offset_of(await asked) == 1
        assert not other.done()
        assert (await other).code == ResponseCode.QUERY_NOT_FOUND
        assert dict(live.broker.context.consumers.handovers.given) == {"left": 2}


async def test_two_that_wait_for_each_other_do_not(live: LiveBroker) -> None:
    """Java rebalances in one thread: who waits for one queue cannot give up another."""
    one, two = await joined(live, "c1"), await joined(live, "c2")
    async with one, two:
        await one.start_of(0)
        await two.start_of(1)
        first = one.starting(1)
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await two.start_of(0)
        assert dict(live.broker.context.consumers.handovers.given) == {"deadlock": 1}
        await two.members()
        await two.commit(0, 1)
        assert offset_of(await first) == 0
        assert dict(live.broker.context.consumers.handovers.given) == {"deadlock": 1, "let go": 1}


async def test_pulls_of_an_owner_wait_while_somebody_asks(live: LiveBroker) -> None:
    """As on an empty queue; they go on when nobody asks any more."""
    old, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
    async with old:
        await old.start_of()
        assert (await old.pull(0)).code == ResponseCode.SUCCESS
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        assert (await old.pull(0)).code == ResponseCode.PULL_NOT_FOUND
        held = asyncio.create_task(old.pull(0, suspend_ms=60_000))
        await until(lambda: live.broker.context.pulls.holds.count == 1)
        asked.cancel()
        await new.close()
        assert (await held).code == ResponseCode.SUCCESS


async def test_who_still_pulls_owns_the_queue_again(live: LiveBroker) -> None:
    """A member that for a moment saw itself alone takes everything, and gives it up again."""
    old, new = await joined(live, "c1"), await joined(live, "c2", 60_000)
    async with old, new:
        await old.start_of()
        held = asyncio.create_task(old.pull(1, suspend_ms=60_000))
        await until(lambda: live.broker.context.pulls.holds.count == 1)
        reply = await new.start_of()
        while reply.code == ResponseCode.HANDOVER_PENDING:
            reply = await new.start_of()
        assert (await held).code == ResponseCode.PULL_NOT_FOUND
        held = asyncio.create_task(old.pull(0, suspend_ms=60_000, commit=0))
        await until(lambda: live.broker.context.pulls.holds.count == 1)
        await new.commit(1)
        await new.unlock(0)
        assert (await held).code == ResponseCode.PULL_OFFSET_MOVED  # the new one has done that
        await old.commit(0)
        assert live.broker.context.tables.offsets.committed("G", "T", 0) == 1
        await old.commit(1)
        await old.commit(0)  # it has been where the others were: from here on it may go back
        assert live.broker.context.tables.offsets.committed("G", "T", 0) == 0


async def test_those_who_share_no_queues_are_never_held(live: LiveBroker) -> None:
    """Tools, pull consumers, members with given queues, those that broadcast."""
    owner = await joined(live, "c1", 60_000)
    async with owner:
        await owner.start_of()
        for version, topics, model in (
            (0, ("T",), "CLUSTERING"),
            (1, ("U",), "CLUSTERING"),
            (1, ("T",), "BROADCASTING"),
        ):
            async with RawMember(live.broker.port, "c2") as other:
                other.version = version
                await other.beat(*topics, model=model)
                assert offset_of(await other.start_of()) == 0
                await other.commit(1)
                assert live.broker.context.tables.offsets.committed("G", "T", 0) == 1
                await owner.commit(0)
        await live.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1},
        )
        assert live.broker.context.tables.offsets.committed("G", "T", 0) == 1
        assert live.broker.context.consumers.handovers.given == {}


async def test_zero_turns_holding_off(tmp_path: Path) -> None:
    """Everything is as with RocketMQ then."""
    async with live_broker(tmp_path, handover_wait_millis=0) as live:
        await live.ask(RequestCode.SEND_MESSAGE_V2, dict.fromkeys("abcdefgh", "0") | {"b": "T"})
        old, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
        async with old, new:
            assert "AEROBEE_HANDOVER" not in (await old.beat()).ext
            await old.start_of()
            await new.start_of()
            assert live.broker.context.consumers.handovers.owned == 0


async def test_a_heartbeat_shows_what_a_question_to_another_broker_did_not(
    live: LiveBroker,
) -> None:
    """A newer version of the topic says that the owner has rebalanced: its commit was the last."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        for queue_id in (0, 1, 2):
            await old.start_of(queue_id)
        await old.commit(1, 0)
        first, second, third = (new.starting(queue_id) for queue_id in (0, 1, 2))
        await until(lambda: live.broker.context.consumers.handovers.waiting == 3)
        await old.beat(newer=True)
        assert offset_of(await first) == 1
        await old.commit(1, 1)
        assert offset_of(await second) == 1
        assert not third.done()
        await old.members()
        await old.beat(newer=True)  # nothing was ever committed in the third queue
        assert (await third).code == ResponseCode.QUERY_NOT_FOUND
        assert dict(live.broker.context.consumers.handovers.given) == {"let go": 3}


async def test_orderly_owners_unlock(live: LiveBroker) -> None:
    """Their commits are no sign: a message may still be under way."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        await old.lock(0)
        await old.start_of()
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await old.members()
        await old.commit(1)
        assert not asked.done()
        await old.unlock(0)
        assert offset_of(await asked) == 1


async def test_who_reconnects_goes_on(live: LiveBroker) -> None:
    """It pulls without asking for its offset, and owns what it pulls."""
    async with await joined(live, "c1", 60_000) as first:
        await first.start_of()
    await until(lambda: live.broker.context.consumers.handovers.owned == 0)
    again, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
    async with again, new:
        assert (await again.pull(0)).code == ResponseCode.SUCCESS
        asked = new.starting()
        await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
        await again.commit(1)
        await again.unlock(0)
        assert offset_of(await asked) == 1


async def test_an_owner_hears_that_somebody_asks(live: LiveBroker) -> None:
    """Whatever made the queue move: it may know nothing of a new route yet."""
    old, new = await joined(live, "c1", 60_000), await joined(live, "c2", 60_000)
    async with old, new:
        await old.start_of()
        await until(lambda: len(new.told) >= 1)
        await old.settled()
        old.told.clear()
        asked = new.starting()
        await until(lambda: [told.code for told in old.told] == [40])
        await old.unlock(0)
        await asked


async def begun(live: LiveBroker, client_id: str) -> RawMember:
    """Return a foreign member that owns queue 0 and is about to consume its only message."""
    member = await joined(live, client_id)
    await member.start_of()
    assert (await member.pull(0)).ext["nextBeginOffset"] == "1"
    await until(lambda: [told.code for told in member.told] == [40], what="its own notice")
    await member.settled()
    member.told.clear()
    return member


async def test_foreign_members_finish_before_they_hear_of_a_change(live: LiveBroker) -> None:
    """Their pulls wait, and say when nothing is under way any more."""
    async with await begun(live, "c1") as old, await joined(live, "c2") as new:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"more")
        for _ in range(3):
            reply = await old.pull(1, suspend_ms=60_000, commit=0)
            assert reply.code == ResponseCode.PULL_NOT_FOUND
        assert not old.told and not new.told
        held = asyncio.create_task(old.pull(1, suspend_ms=60_000, commit=1))
        await until(lambda: old.told and new.told, what="the notices")
        assert not held.done()
        await old.members()
        assert (await held).code == ResponseCode.SUCCESS  # it keeps the queue


async def test_who_shares_unasked_waits_until_foreign_members_have_finished(
    live: LiveBroker,
) -> None:
    """Java shares the queues of all its groups anew when one of them has changed."""
    async with await begun(live, "c1") as old, await joined(live, "c2") as new:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"more")
        questions = [asyncio.create_task(member.members()) for member in (old, new)]
        for _ in range(3):
            await old.pull(1, suspend_ms=60_000, commit=0)
            assert not any(question.done() for question in questions)
        held = asyncio.create_task(old.pull(1, suspend_ms=60_000, commit=1))
        replies = await asyncio.gather(*questions)
        assert all(reply.code == ResponseCode.SUCCESS for reply in replies)
        assert all(reply.body == b'{"consumerIdList":["c1","c2"]}' for reply in replies)
        await old.commit(1)
        assert offset_of(await new.start_of()) == 1
        assert (await held).code == ResponseCode.PULL_NOT_FOUND


async def test_members_of_ours_and_tools_are_told_at_once_who_is_there(live: LiveBroker) -> None:
    """Ours finish what they lose, and tools share nothing."""
    live.broker.live.change(live.broker.settings.changed({"handoverDrainMillis": "10000"}))
    async with await begun(live, "c1") as old, await joined(live, "c2", 10_000) as ours:
        tool = RawMember(live.broker.port, "tool")
        async with tool:
            assert (await ours.members()).code == (await tool.members()).code == 0
        assert not old.told
        asked = asyncio.create_task(old.members())
        await ours.members()
        assert not asked.done()
        await old.close()
        with pytest.raises(ConnectionLost):
            await asked


async def test_members_that_do_not_finish_hear_of_a_change_all_the_same(live: LiveBroker) -> None:
    """After handoverDrainMillis; at once where that is 0."""
    change = live.broker.settings.changed
    live.broker.live.change(change({"handoverDrainMillis": "100"}))
    async with await begun(live, "c1") as old, await joined(live, "c2"):
        assert not old.told
        await until(lambda: [told.code for told in old.told] == [40])
        await old.members()
        await until(lambda: live.broker.context.consumers.handovers.may_pull(*owned_by(live)))
    live.broker.live.change(change({"handoverDrainMillis": "0"}))
    async with await begun(live, "c3") as old, await joined(live, "c4"):
        await until(lambda: [told.code for told in old.told] == [40])


def owned_by(live: LiveBroker) -> tuple[Connection, GroupQueue]:
    """Return who owns queue 0."""
    key = GroupQueue("G", "T", 0)
    owner = live.broker.context.consumers.handovers.owner(key)
    assert owner is not None
    return owner.connection, key


async def test_who_does_not_pull_again_has_dropped_the_queue(live: LiveBroker) -> None:
    """Go commits one of the queues that it drops; of the others its pulls are the only sign."""
    live.broker.live.change(live.broker.settings.changed({"handoverWaitMillis": "5000"}))
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        for queue_id in (0, 1):
            await old.start_of(queue_id)
        await old.members()
        await old.pull(0, 0)
        kept = asyncio.create_task(old.pull(1, 0, suspend_ms=60_000))
        dropped = asyncio.create_task(old.pull(0, 1, suspend_ms=60_000))
        await until(lambda: live.broker.context.pulls.holds.count == 2)
        first, second = new.starting(0), new.starting(1)
        assert (await kept).code == (await dropped).code == ResponseCode.PULL_NOT_FOUND
        again = asyncio.create_task(old.pull(1, 0, suspend_ms=60_000))
        assert (await second).code == ResponseCode.QUERY_NOT_FOUND
        assert not first.done()
        await old.commit(1)
        assert offset_of(await first) == 1
        assert (await again).code == ResponseCode.PULL_NOT_FOUND
