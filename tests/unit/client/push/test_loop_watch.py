"""Handlers that hold the event loop are named, and those that only take long are not."""

import asyncio
import time
from collections.abc import Callable

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, MessageHandler, PushConsumer, ReceivedMessage
from aerobee.client.push.loop_watch import TOPICS_MAX, LoopWatch


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said of handlers that hold the loop."""
    lines = [each.getMessage() for each in caplog.records]
    return [line for line in lines if "held the loop" in line]


async def handled(cluster: FakeCluster, handle: MessageHandler, messages: int) -> None:
    """Have some messages of t handled, and the timer come once more."""
    cluster.create("t", 1)
    for _ in range(messages):
        cluster.brokers[0].store("t", 0, b"x")
    consumer = PushConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("t", handle)
    async with consumer:
        await until(lambda: consumer.statistics().handlers.succeeded == messages)
        await asyncio.sleep(0.6)


async def blocks(message: ReceivedMessage) -> None:
    """Hold the loop."""
    time.sleep(1.1)  # noqa: ASYNC251 - that is the point


async def blocks_later(message: ReceivedMessage) -> None:
    """Hold it after it has waited, and go on waiting."""
    await asyncio.sleep(0.01)
    time.sleep(1.7)  # noqa: ASYNC251
    await asyncio.sleep(0.7)


async def waits(message: ReceivedMessage) -> None:
    """Take its time, and let others run."""
    await asyncio.sleep(1.2)


def in_a_thread(message: ReceivedMessage) -> None:
    """Block a thread of its own."""
    time.sleep(1.2)


@pytest.mark.parametrize("handle", [blocks, blocks_later])
async def test_a_handler_that_holds_the_loop_is_named(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, handle: MessageHandler
) -> None:
    """Once in half a minute, with how long it was and what to do."""
    await handled(cluster, handle, 2 if handle is blocks else 1)
    (line,) = told(caplog)
    assert line.startswith("handler of topic t held the loop for 1.")
    assert "plain function, which runs in a thread group=g" in line


@pytest.mark.parametrize("handle", [waits, in_a_thread])
async def test_one_that_only_takes_long_is_not(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, handle: MessageHandler
) -> None:
    """Nor a plain function."""
    await handled(cluster, handle, 1)
    assert told(caplog) == []


async def test_what_holds_the_loop_without_a_handler_is_nobodys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The program may have its reasons."""
    watch = LoopWatch("g", [])
    time.sleep(1.7)  # noqa: ASYNC251
    await asyncio.sleep(0.01)
    watch.stop()
    assert told(caplog) == []


async def test_a_topic_is_told_again_after_half_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how often it was meanwhile; topics that come and go take no memory."""
    loop, now_s = asyncio.get_running_loop(), 1_000.0
    clock: Callable[[], float] = lambda: now_s
    monkeypatch.setattr(loop, "time", clock)
    watch = LoopWatch("g", [])
    watch.stop()
    for _ in range(31):
        now_s += 1
        watch.took_long("t", now_s, 1.0)
    first, again = told(caplog)
    assert "held the loop for 1.0 s:" in first
    assert "held the loop for 1.0 s, and 29 times before:" in again
    for at in range(TOPICS_MAX + 1):
        watch.took_long(f"t{at}", now_s, 1.0)
    assert len(watch._told) <= TOPICS_MAX
    monkeypatch.undo()
