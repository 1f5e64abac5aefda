"""Hooks see each call of a handler and each pull; what they raise harms nobody."""

import asyncio
import copy

import pytest
from support.consumers import Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeContext,
    ConsumeFrom,
    ConsumeHook,
    ConsumeResult,
    FilterContext,
    FilterHook,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)


class Watch(ConsumeHook):
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.begun: list[list[bytes]] = []
        self.ended: list[ConsumeContext] = []

    def before(self, context: ConsumeContext) -> None:
        """Keep the bodies."""
        assert (context.outcome, context.error) == ("", None)
        self.begun.append([message.body for message in context.messages])

    def after(self, context: ConsumeContext) -> None:
        """Keep how it went."""
        self.ended.append(context)


class Faulty(ConsumeHook, FilterHook):
    """Raises wherever it can."""

    def before(self, context: ConsumeContext) -> None:
        """Raise."""
        raise RuntimeError("before")

    def after(self, context: ConsumeContext) -> None:
        """Raise."""
        raise RuntimeError("after")

    def filter(self, context: FilterContext) -> None:
        """Raise."""
        raise RuntimeError("filter")


class OddOnly(FilterHook):
    """Takes out every even offset."""

    def filter(self, context: FilterContext) -> None:
        """Keep the odd ones."""
        assert (context.group, context.queue.topic) == ("g", "t")
        context.messages[:] = [each for each in context.messages if each.queue_offset % 2]


@pytest.mark.parametrize("ordered", [False, True])
async def test_consume_hooks_learn_how_it_went(cluster: FakeCluster, ordered: bool) -> None:
    """Success, failure, an error with the error, and success that took too long."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 4)
    watch = Watch()

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        if message.reconsume_times == 0:
            if message.body == b"1":
                return ConsumeResult.LATER
            if message.body == b"2":
                raise ValueError("no")
        if message.body == b"3":
            await asyncio.sleep(0.06)
        return None

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(consume_timeout_ms=50, suspend_ms=10),
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
        hooks=[Faulty(), watch],
    )
    member.subscribe("t", handle)
    async with member:  # the first two failures come again; the slow one perhaps, too
        await until(lambda: len(watch.ended) >= 6)
    first: dict[bytes, ConsumeContext] = {}
    for context in watch.ended:
        first.setdefault(context.messages[0].body, context)
    assert {body: context.outcome for body, context in first.items()} == {
        b"0": "SUCCESS",
        b"1": "FAILED",
        b"2": "EXCEPTION",
        b"3": "TIME_OUT",
    }
    assert isinstance(first[b"2"].error, ValueError)
    assert {(context.group, context.queue.broker_name) for context in watch.ended} == {
        ("g", "broker-a")
    }
    assert sorted(watch.begun)[:5] == [[b"0"], [b"1"], [b"1"], [b"2"], [b"2"]]


async def test_what_a_filter_hook_takes_out_counts_as_consumed(cluster: FakeCluster) -> None:
    """Nobody handles it, and the offset passes it."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 11)
    seen = Seen()
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        consume_from=ConsumeFrom.FIRST,
        hooks=[OddOnly(), Faulty()],
    )
    member.subscribe("t", seen.handle)
    async with member:
        await until(lambda: len(seen.messages) == 5)
    assert [message.queue_offset for message in seen.messages] == [1, 3, 5, 7, 9]
    assert cluster.brokers[0].committed["g", "t", 0] == 11


class Unruly(FilterHook):
    """Makes a mess of what came: another order, one twice, one that is not of this pull."""

    def __init__(self) -> None:
        self.strange: ReceivedMessage | None = None

    def filter(self, context: FilterContext) -> None:
        """Mix, and leave out the third."""
        messages = context.messages
        if self.strange is None:
            self.strange = copy.copy(messages[0])
            self.strange.queue_offset = 1000
        messages.append(messages[1])
        del messages[2]
        messages.append(self.strange)
        messages.reverse()


async def test_a_filter_hook_moves_no_offset(cluster: FakeCluster) -> None:
    """Whatever order it leaves: nothing is committed ahead of what is handled."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 8)
    gate, seen = asyncio.Event(), Seen()

    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset == 0:
            await gate.wait()
        await seen.handle(message)

    member = PushConsumer(
        "g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST, hooks=[Unruly()]
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: len(seen.messages) == 6)
        queues = member.statistics().queues.items()
        assert [each.oldest_offset for queue, each in queues if queue.topic == "t"] == [0]
        gate.set()
        await until(lambda: len(seen.messages) == 7)
    assert [message.queue_offset for message in seen.messages] == [1, 3, 4, 5, 6, 7, 0]
    assert cluster.brokers[0].committed["g", "t", 0] == 8
