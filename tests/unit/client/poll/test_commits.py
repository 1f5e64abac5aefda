"""How far a lite pull consumer is: many polls and assignments at a time, and the user's word."""

import asyncio
from dataclasses import replace

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PullSettings,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection

A0, A1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
PULL = PullSettings(batch_messages=10, error_delay_ms=20, suspended_delay_ms=10, suspend_ms=5000)
AUTO = LitePullSettings(auto_commit_interval_ms=20, handover_timeout_ms=5000, pull=PULL)
MANUAL = LitePullSettings(auto_commit=False, handover_timeout_ms=5000, pull=PULL)


def fill(cluster: FakeCluster, queue: MessageQueue, count: int, tags: str = "") -> None:
    """Store messages in one queue of the first broker."""
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    for at in range(count):
        cluster.brokers[0].store(queue.topic, queue.queue_id, b"%d" % at, properties)


def consumer(cluster: FakeCluster, settings: LitePullSettings) -> LitePullConsumer:
    """Return a consumer of group g that begins at the first message."""
    return LitePullConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )


async def rounds(cluster: FakeCluster, count: int = 3) -> None:
    """Return after that many rounds of auto-commit."""
    commits = cluster.brokers[0].requests
    target = len(commits(RequestCode.UPDATE_CONSUMER_OFFSET)) + count
    await until(lambda: len(commits(RequestCode.UPDATE_CONSUMER_OFFSET)) >= target)


async def test_polls_at_the_same_time_count_all_their_batches(cluster: FakeCluster) -> None:
    """Of two queues, and of one: no batch is forgotten, and nothing waits for it later."""
    cluster.create("t", 2)
    async with consumer(cluster, AUTO) as member:
        await member.assign([A0, A1])
        polls = [asyncio.create_task(member.poll()) for _ in range(6)]
        await asyncio.sleep(0)
        for queue in (A0, A1):
            fill(cluster, queue, 25)
        assert sum(map(len, await asyncio.gather(*polls))) == 50
        await member.commit()
        assert [await member.committed(queue) for queue in (A0, A1)] == [25, 25]
        await asyncio.wait_for(member.assign([]), 2)  # nobody works on them any more


async def test_each_task_counts_what_it_has_polled_itself(cluster: FakeCluster) -> None:
    """One that goes on does not say that the others are done: their messages outlive a crash."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    taken, done = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        assert (await member.poll())[0].queue_offset == 0
        taken.set()
        await done.wait()

    async with consumer(cluster, AUTO) as member:
        await member.assign([A0])
        working = asyncio.create_task(slow())
        await taken.wait()
        assert (await member.poll())[0].queue_offset == 10
        assert (await member.poll())[0].queue_offset == 20  # 10 to 19 are done
        await rounds(cluster)
        assert await member.committed(A0) == 0
        done.set()
        await working
        assert await member.poll(timeout_ms=0) == []
        await rounds(cluster)
        assert await member.committed(A0) == 30


async def test_what_is_polled_during_a_commit_is_not_yet_consumed(cluster: FakeCluster) -> None:
    """The commit began before: a crash after it must not lose that batch."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    held: list[tuple[Connection, Command]] = []
    async with consumer(cluster, MANUAL) as member:
        await member.assign([A0])
        await member.poll()
        commits = cluster.brokers[0].script[RequestCode.UPDATE_CONSUMER_OFFSET]
        commits.append(lambda *request: held.append(request))
        committing = asyncio.create_task(member.commit())
        await until(lambda: held)
        assert (await member.poll())[0].queue_offset == 10
        connection, command = held.pop()
        connection.send(command.reply(ResponseCode.SUCCESS))
        await committing
        assert member.statistics()[A0].oldest_offset == 10


async def test_assignments_at_the_same_time_pull_each_queue_once(cluster: FakeCluster) -> None:
    """The last one counts, and what it takes away is pulled no more."""
    cluster.create("t", 2)
    fill(cluster, A0, 10)
    async with consumer(cluster, MANUAL) as member:
        await asyncio.gather(member.assign([A0]), member.assign([A0, A1]), member.assign([A0]))
        assert member.assignment() == [A0]
        assert [each.queue_offset for each in await member.poll()] == list(range(10))
        assert not await member.poll(50)
        await member.assign([])
        pulling = [each for each in asyncio.all_tasks() if each.get_name().startswith("pull ")]
        await until(lambda: all(task.done() for task in pulling))


async def test_auto_commit_leaves_the_users_offset_alone(cluster: FakeCluster) -> None:
    """Ahead of what was polled or behind it, until a message at it or past it is consumed."""
    cluster.create("t", 1)
    fill(cluster, A0, 40)
    async with consumer(cluster, AUTO) as member:
        await member.assign([A0])
        assert len(await member.poll()) == 10
        await member.commit({A0: 25})
        await rounds(cluster)
        assert await member.committed(A0) == 25
        await member.commit({A0: 3})
        await rounds(cluster)
        assert await member.committed(A0) == 3, "nothing more was polled"
        await member.commit({A0: 25})
        for first in (10, 20):
            assert (await member.poll())[0].queue_offset == first
            await rounds(cluster)
            assert await member.committed(A0) == 25, f"the user is ahead of {first}"
        assert (await member.poll())[0].queue_offset == 30
        await rounds(cluster)
        assert await member.committed(A0) == 30


async def test_messages_that_are_left_out_do_not_undo_the_users_offset(
    cluster: FakeCluster,
) -> None:
    """Only what was handed out and consumed does."""
    cluster.create("t", 1)
    fill(cluster, A0, 10, tags="a")
    async with consumer(cluster, AUTO) as member:
        await member.assign([A0], tags="a")
        await member.poll()
        await member.commit({A0: 4})
        assert not await member.poll(0)
        await member.commit({A0: 4})
        fill(cluster, A0, 10, tags="b")
        await until(lambda: member.statistics()[A0].next_offset == 20)
        await rounds(cluster)
        assert await member.committed(A0) == 4


async def test_a_seek_ends_the_users_word(cluster: FakeCluster) -> None:
    """And so does the loss of the queue, with which it is stored once more."""
    cluster.create("t", 1)
    fill(cluster, A0, 20)
    async with consumer(cluster, AUTO) as member:
        await member.assign([A0])
        await member.poll()
        await member.commit({A0: 15})
        await member.seek(A0, 2)
        await until(lambda: cluster.brokers[0].committed["g", "t", 0] == 2)
        await member.commit({A0: 7})
        await member.assign([])
        assert cluster.brokers[0].committed["g", "t", 0] == 7


@pytest.mark.parametrize("how", ["finally", "except", "cancelled", "end"])
async def test_a_close_on_the_way_of_an_error_commits_nothing_that_failed(
    cluster: FakeCluster, how: str
) -> None:
    """What was handed out last comes again, unless the program came to its end."""
    cluster.create("t", 1)
    fill(cluster, A0, 3)
    member = consumer(cluster, AUTO)
    member.settings = replace(AUTO, auto_commit_interval_ms=60_000)
    await member.start()
    await member.assign([A0])

    async def program() -> None:
        try:
            assert len(await member.poll()) == 3
            if how == "cancelled":
                await asyncio.Event().wait()
            if how != "end":
                raise RuntimeError("as the test wants")
        except RuntimeError:
            if how == "except":
                await member.close()
            raise
        finally:
            await member.close()

    task = asyncio.create_task(program())
    await until(
        lambda: task.done() or (how == "cancelled" and member.statistics()[A0].messages == 3)
    )
    if how == "cancelled":
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    assert cluster.brokers[0].committed["g", "t", 0] == (3 if how == "end" else 0)
