"""`async for` books a pull at a time; nobody who looks can tell."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from support.consumers import fill
from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client import ConsumeFrom, LitePullConsumer, MessageQueue, ReceivedMessage
from aerobee.client.poll.fetched import FetchedMessages
from aerobee.client.poll.takers import TAKER
from aerobee.client.pulls.process_queue import ProcessQueue

QUEUE: Final = MessageQueue("orders", "broker", 0)
PULL: Final = 5


class Task:
    """Somebody who takes messages."""

    def __init__(self) -> None:
        self.ended = False

    def done(self) -> bool:
        return self.ended


class OneByOne(FetchedMessages):
    """Books each message by itself."""

    def _may_begin_run(self) -> bool:
        return False


def message(offset: int) -> ReceivedMessage:
    return ReceivedMessage(QUEUE, b"x" * offset, offset, 0, 0, 0, 0, 0, 0, offset,
                           b"", bytes(8), bytes(8), held_bytes=offset)  # fmt: skip


class Looked:
    """One side: what is fetched of two queues, asked by three tasks; all that can be seen of it."""

    def __init__(self, kind: type[FetchedMessages]) -> None:
        self.fetched = kind()
        self.processes = [ProcessQueue(0), ProcessQueue(0)]
        self.tasks = [Task(), Task(), Task()]
        self.last: ReceivedMessage | None = None

    async def step(self, what: str, which: int) -> Any:
        """Do something; return what came of it."""
        fetched, process = self.fetched, self.processes[which % 2]
        TAKER.set(self.tasks[which % 3])
        match what:
            case "next":
                found = fetched.next_of_run()
                if found is None:
                    fetched.asks_again()
                    found = await self._in_time(fetched.take_one())
                self.last = found or self.last
                return found and (found.queue_offset, self._home(found))
            case "poll":
                fetched.asks_again()
                return [each.queue_offset for each in await fetched.take_batch(0)]
            case "pull" if not process.dropped:
                messages = [message(process.next_offset + at) for at in range(PULL)]
                process.put(messages, process.next_offset + PULL)
                fetched.add(process, messages)
            case "commit":
                fetched.count_handed()
                fetched.let_go()
            case "name":
                fetched.name(process, process.committable + which)
            case "done before":
                fetched.done_before(process, process.next_offset - which)
            case "put back" if self.last is not None:
                fetched.put_back([self.last])
            case "end":
                self.tasks[which % 3].ended = True
            case "sought":
                process.release()
                fetched.discard(process)
                fetched.forget_named(process)
                self.processes[which % 2] = ProcessQueue(process.next_offset)
            case "dropped" if not process.dropped:
                process.drop()
            case "failed":
                fetched.forget_handed()
            case "forget working":
                fetched.forget_working()
        return None

    async def _in_time(self, taking: Coroutine[Any, Any, Any]) -> Any:
        try:
            async with asyncio.timeout(0):
                return await taking
        except TimeoutError:
            return None

    def _home(self, found: ReceivedMessage) -> list[bool]:
        return [process.holds(found) for process in self.processes]

    def seen(self, *, handed: bool) -> list[Any]:
        """Return what anybody can see; to see what is handed out ends a run."""
        fetched = self.fetched
        return [
            fetched.messages,
            fetched.bytes,
            handed and fetched.handed,
            [
                (fetched.committable(each), each.count, each.bytes, each.span, each.running)
                for each in self.processes
            ],
        ]


STEPS: Final = st.tuples(
    st.sampled_from(
        ["next"] * 12 + ["pull"] * 4
        + ["poll", "commit", "name", "done before", "put back", "end", "sought", "dropped",
           "failed", "forget working"]
    ),
    st.integers(0, 5) | st.just(0),
    st.booleans(),
)  # fmt: skip


@given(st.lists(STEPS, max_size=60))
def test_a_run_is_as_messages_one_by_one(steps: Sequence[tuple[str, int, bool]]) -> None:
    """Whatever else is asked for, by whomever, while one iterates; looked at often or seldom."""

    async def compare() -> None:
        sides = [Looked(FetchedMessages), Looked(OneByOne)]
        for what, which, looks in steps:
            came = [await side.step(what, which) for side in sides]
            assert came[0] == came[1]
            if looks:
                first, second = (side.seen(handed=False) for side in sides)
                assert first == second
        first, second = (side.seen(handed=True) for side in sides)
        assert first == second

    asyncio.run(compare())


async def test_a_run_is_booked_when_somebody_looks(cluster: FakeCluster) -> None:
    """What one who iterates has asked past is consumed, without a word of his."""
    cluster.create("t", 1)
    fill(cluster, "t", 8)
    consumer = LitePullConsumer("group", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("t")
    async with consumer:
        count = 0
        async for each in consumer:
            assert sum(state.messages for state in consumer.statistics().values()) == 8 - count
            count += 1
            if count == 5:
                await consumer.commit({each.queue: each.queue_offset})
                assert await consumer.committed(each.queue) == each.queue_offset
            if count == 8:
                break


async def test_two_who_iterate_share_what_one_pull_has_brought(cluster: FakeCluster) -> None:
    """Nobody waits while another, who is slow, has messages before it."""
    cluster.create("t", 1)
    fill(cluster, "t", 8)
    got: list[list[int]] = [[], []]
    all_there = asyncio.Event()

    async def iterate(number: int, consumer: LitePullConsumer) -> None:
        async for each in consumer:
            got[number].append(each.queue_offset)
            if sum(map(len, got)) == 8:
                all_there.set()
            await asyncio.sleep(0.01)

    consumer = LitePullConsumer("group", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("t")
    async with consumer:
        tasks = [asyncio.create_task(iterate(number, consumer)) for number in range(2)]
        await asyncio.wait_for(all_there.wait(), 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(len(each) >= 2 for each in got)
