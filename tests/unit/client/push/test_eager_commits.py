"""With commit="each" a crash repeats no more than what runs."""

import asyncio

import pytest
from support.consumers import fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, PullSettings, PushConsumer, PushSettings, ReceivedMessage
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.push.consumption import EagerCommits

QUEUE = MessageQueue("t", "broker-a", 0)


@pytest.mark.parametrize("ordered", [False, True])
async def test_each_handler_is_committed_before_the_next_begins(
    cluster: FakeCluster, ordered: bool
) -> None:
    """The broker has the offset when the worker goes on."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 20)
    broker = cluster.brokers[0]
    committed: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        committed.append(broker.committed.get(("g", "t", 0), 0))

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(concurrency=1, commit="each"),
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: len(committed) == 20)
        await until(lambda: broker.committed["g", "t", 0] == 20)
    assert committed == list(range(20))


async def test_commits_share_the_way_and_never_go_back() -> None:
    """Handlers that end during a commit have the next one in common."""
    sent: list[int] = []
    go = asyncio.Event()

    async def commit(queue: MessageQueue, offset: int) -> None:
        sent.append(offset)
        await go.wait()

    messages = [
        ReceivedMessage(QUEUE, b"", at, 0, 0, 0, 0, 0, 0, 0, b"", b"", b"") for at in range(10)
    ]
    process, eager = ProcessQueue(0), EagerCommits(commit, lambda queue: True)
    eager.begin(QUEUE, process)
    process.put(messages, 10)
    waiting = []
    for message in messages[:8]:
        process.done(message)
        waiting.append(asyncio.ensure_future(eager.settled(process)))
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*waiting)
    assert sent == [1, 8]
    process.drop()
    process.done(messages[8])
    await eager.settled(process)  # the last offset of a lost queue is stored at its end
    eager.end(process)
    await eager.settled(process)
    assert sent == [1, 8]


def test_other_words_are_refused() -> None:
    """There are two ways to commit."""
    with pytest.raises(ValueError, match="allowed are interval, each"):
        PushSettings(commit="sometimes")


@pytest.mark.parametrize(("name", "value"), [("concurrency", 0), ("batch", 0), ("batch", 1025)])
def test_no_handler_is_too_few(name: str, value: int) -> None:
    """A setting that would stop consumption, or overload it, is refused at once."""
    with pytest.raises(ValueError, match=f"{name}={value}: allowed are 1 to"):
        PushSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("messages", [0, 1025])
def test_a_pull_asks_for_some_messages(messages: int) -> None:
    """As many as Java's client would ask for at most."""
    with pytest.raises(ValueError, match=f"batch_messages={messages}: allowed are 1 to"):
        PushSettings(pull=PullSettings(batch_messages=messages))
