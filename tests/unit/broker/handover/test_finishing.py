"""Members of other projects that finish what they fetched before they lose a queue."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.members import RawMember, offset_of
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.remoting.bodies import (
    ConsumerRunningInfo,
    ProcessQueueInfo,
    QueueBody,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection

NOTHING = ResponseCode.PULL_NOT_FOUND
END = 12  # of both queues
BATCH = 10


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker whose topic T has messages in two queues, and where nobody has to give up."""
    async with live_broker(tmp_path, handover_wait_millis=20_000) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "f": 0, "g": 1, "h": 0}
        for number in range(2 * END):
            await broker.ask(RequestCode.SEND_MESSAGE_V2, header | {"e": number % 2}, b"hello")
        yield broker


async def joined(live: LiveBroker, client_id: str) -> RawMember:
    """Return a member that has introduced itself."""
    member = RawMember(live.broker.port, client_id)
    await member.beat()
    return member


@pytest.fixture
async def old(live: LiveBroker) -> AsyncIterator[RawMember]:
    """The only member of the group, which was told of it and has fetched all of queue 0."""
    async with await joined(live, "c1") as member:
        await member.start_of()
        await member.pull(0)
        await member.hears(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        member.told.clear()
        yield member


async def hears_of_change(member: RawMember) -> None:
    """Wait until a member is told that its group has changed (40)."""
    await member.hears(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)


@asynccontextmanager
async def waiting(*pulls: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Let pulls go on meanwhile."""
    tasks = [asyncio.create_task(pull) for pull in pulls]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def finish(member: RawMember, queue_id: int = 0) -> None:
    """Pull as a client does that is answered with nothing, with all consumed that was fetched."""
    while (await member.pull(END, queue_id, suspend_ms=60_000, commit=END)).code == NOTHING:
        pass


async def test_a_contested_queue_is_free_when_its_owner_has_finished(live: LiveBroker) -> None:
    """Though it has asked for no members since, committed by no 15, and would go on pulling."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        await old.start_of()
        assert (await old.pull(0)).code == ResponseCode.SUCCESS
        asked = new.starting()
        for _ in range(3):
            assert (await old.pull(END, suspend_ms=60_000, commit=0)).code == NOTHING
            assert not asked.done()
        assert (await old.pull(END, suspend_ms=60_000, commit=END)).code == NOTHING
        assert offset_of(await asked) == END
        assert dict(live.broker.context.consumers.handovers.given) == {"finished": 1}


async def test_who_waits_for_each_other_finishes(live: LiveBroker) -> None:
    """Clients pull while their sharing of queues waits for a queue: a circle stops nobody."""
    one, two = await joined(live, "c1"), await joined(live, "c2")
    async with one, two:
        await one.start_of(0)
        await two.start_of(1)
        await one.pull(0, 0)
        await two.pull(0, 1)
        first, second = one.starting(1), two.starting(0)
        await until(lambda: live.broker.context.consumers.handovers.waiting == 2)
        async with waiting(finish(one, 0), finish(two, 1)):
            assert offset_of(await first) == offset_of(await second) == END
        assert dict(live.broker.context.consumers.handovers.given) == {"finished": 2}


async def test_members_keep_what_they_have_while_others_are_slow(
    live: LiveBroker, old: RawMember
) -> None:
    """Who asks for the members gets those before the change: nobody takes anything yet."""
    async with await joined(live, "c2") as new:
        answers = await asyncio.gather(old.members(), new.members())
        assert [reply.body for reply in answers] == [b'{"consumerIdList":["c1"]}'] * 2
        assert not old.told and not new.told
        async with waiting(finish(old)):
            await hears_of_change(new)
            assert (await new.members()).body == b'{"consumerIdList":["c1","c2"]}'
            assert offset_of(await new.start_of()) == END


async def test_who_has_queues_but_was_not_told_of_is_not_left_out(
    live: LiveBroker, old: RawMember
) -> None:
    """As after a restart of the broker: owners are refused, who is new gets all but itself."""
    async with await joined(live, "c2") as back:
        await back.pull(0, 1)
        refused = await asyncio.gather(old.members(), back.members())
        assert [reply.code for reply in refused] == [ResponseCode.SYSTEM_BUSY] * 2
        assert "its members finish first" in (refused[0].remark or "")
        async with await joined(live, "c3") as new:
            assert (await new.members()).body == b'{"consumerIdList":["c1","c2"]}'


async def test_a_change_right_after_another_is_told_later(live: LiveBroker, old: RawMember) -> None:
    """A group consumes for as long as it has rested before it has to finish again."""
    async with await joined(live, "c2") as new, waiting(finish(old)):
        await hears_of_change(new)
        async with await joined(live, "c3") as third:
            assert (await third.members()).body == b'{"consumerIdList":["c1","c2"]}'
            await hears_of_change(third)
            assert (await third.members()).body == b'{"consumerIdList":["c1","c2","c3"]}'


async def add_queues(live: LiveBroker) -> None:
    """Give topic T more queues than it had."""
    fields = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": 8, "writeQueueNums": 8}
    fields |= {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    reply = await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert reply.code == ResponseCode.SUCCESS


async def test_who_may_learn_of_more_queues_finishes_before_it_shares(
    live: LiveBroker, old: RawMember
) -> None:
    """Nothing tells clients that a topic has more queues: each shares anew at its own time."""
    assert (await old.members()).code == ResponseCode.SUCCESS
    await add_queues(live)
    question = asyncio.create_task(old.members())
    assert (await old.pull(END, suspend_ms=60_000, commit=0)).code == NOTHING
    assert not question.done()
    async with waiting(finish(old)):
        assert (await question).code == ResponseCode.SUCCESS
        assert (await old.members()).code == ResponseCode.SUCCESS  # of its next topic: at once


async def test_who_finishes_alone_is_answered_in_any_case(live: LiveBroker, old: RawMember) -> None:
    """Nobody would tell it when to ask again, and what it has dropped never finishes."""
    await add_queues(live)
    for _ in range(2):
        assert (await old.members()).code == ResponseCode.SUCCESS


class LiteMember(RawMember):
    """A lite pull consumer that tells of each queue how much it holds, and when it gave some."""

    consume_type = "CONSUME_ACTIVELY"

    def __init__(self, port: int, client_id: str, *, auto_commit: str = "true") -> None:
        super().__init__(port, client_id, handler=self._answer)
        self.holds: dict[int, tuple[int, int]] = {}
        self.auto_commit = auto_commit

    def _answer(self, connection: Connection, command: Command) -> None:
        if command.code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            self.told.append(command)
            return
        info = ConsumerRunningInfo(
            properties={"autoCommit": self.auto_commit, "pullBatchSize": str(BATCH)},
            mq_table={
                QueueBody(topic="T", broker_name="broker-a", queue_id=queue_id): (
                    ProcessQueueInfo(cached_msg_count=held, last_consume_timestamp=at_ms)
                )
                for queue_id, (held, at_ms) in self.holds.items()
            },
        )
        connection.send(command.reply(0, {}, encode_body(info, strict=False)))


@asynccontextmanager
async def lite_owner(live: LiveBroker, auto_commit: str = "true") -> AsyncIterator[LiteMember]:
    """Have a lite pull consumer that has fetched all of both queues and waits for more."""
    async with LiteMember(live.broker.port, "c1", auto_commit=auto_commit) as member:
        await member.beat()
        for queue_id in (0, 1):
            await member.start_of(queue_id)
            assert (await member.pull(0, queue_id)).code == ResponseCode.SUCCESS
        pulls = [member.pull(END, queue_id, suspend_ms=60_000) for queue_id in (0, 1)]
        async with waiting(*pulls):
            await hears_of_change(member)
            member.told.clear()
            yield member


async def test_what_a_lite_pull_consumer_has_handed_out_is_committed(live: LiveBroker) -> None:
    """When it holds nothing any more; of its latest batch the user may have some in hand."""
    committed = live.broker.context.tables.offsets.committed
    async with lite_owner(live) as lite, LiteMember(live.broker.port, "c2") as new:
        lite.holds = {0: (0, 1_000), 1: (3, 2_000)}
        await new.beat()
        await until(lambda: committed("G", "T", 0) == END)
        assert committed("G", "T", 1) is None and not new.told
        lite.holds = {0: (0, 1_000), 1: (0, 2_000)}
        await hears_of_change(new)
        assert committed("G", "T", 1) == END - BATCH
        await lite.commit(1)  # its own, some seconds old
        assert committed("G", "T", 0) == END
        assert offset_of(await new.start_of(0)) == END
        assert offset_of(await new.start_of(1)) == END - BATCH


async def test_nothing_is_committed_for_who_commits_by_hand(live: LiveBroker) -> None:
    """Its members hear of the change at once: there is nothing to wait for."""
    async with lite_owner(live, auto_commit="false") as lite:
        lite.holds = {0: (0, 1_000), 1: (0, 2_000)}
        async with LiteMember(live.broker.port, "c2") as new:
            await new.beat()
            await hears_of_change(new)
            assert live.broker.context.tables.offsets.committed("G", "T", 0) is None
