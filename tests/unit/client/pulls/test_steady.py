"""Pulls follow each other in their connection's callback, and what is unusual finds its way out."""

import asyncio
import contextvars
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.consumers import Handle, Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    FilterHook,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.cluster.found import FoundReply
from aerobee.client.hooks import FilterContext
from aerobee.client.pulls.pull_frames import pull_frame, pull_template
from aerobee.client.pulls.steady import SteadyPulls
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import FrameReader

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
REPLY = Command(0, {})
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["%d", "%%", '"queueOffset":"0"', "\\", '"opaque":0', "a || b", "0"]
)


@given(
    st.dictionaries(st.sampled_from(["topic", "consumerGroup", "subscription", "bname"]), TEXTS),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
)
def test_a_template_is_filled_in_as_a_header_is_written(
    fields: dict[str, str], offset: int, committed: int, opaque: int
) -> None:
    """Whatever other fields say, also what looks like a place to be filled in."""
    reader = FrameReader()
    reader.feed(pull_frame(pull_template(11, fields, 2), offset, committed, opaque))
    (command,) = reader
    assert (command.code, command.flag, command.opaque) == (11, 2, opaque)
    numbers = {"queueOffset": str(offset), "commitOffset": str(committed)}
    assert command.ext == fields | numbers


async def test_a_reply_that_is_seen_to_wakes_nobody() -> None:
    """Only what is left over does, and from then on nobody waits."""
    seen: list[Command | FoundReply] = []

    def go_on(reply: Command | FoundReply) -> bool:
        seen.append(reply)
        return len(seen) < 3

    steady = SteadyPulls(go_on)
    for _ in range(2):
        steady.set_result(REPLY)
        assert not steady.done()
    steady.set_result(REPLY)
    assert steady.done()
    assert await steady.outcome is REPLY
    steady.set_exception(ValueError("late"))
    steady.rest()
    assert len(seen) == 3


async def test_an_error_is_for_who_waits() -> None:
    """The connection goes on with its other replies."""

    def go_on(reply: Command | FoundReply) -> bool:
        raise ValueError("no")

    steady = SteadyPulls(go_on)
    steady.set_result(REPLY)
    with pytest.raises(ValueError, match="no"):
        await steady.outcome


async def test_replies_are_seen_to_in_the_context_of_the_loop() -> None:
    """What a handler inherits comes from its consumer, not from who has made the connection."""
    found: list[str] = []

    def go_on(reply: Command | FoundReply) -> bool:
        found.append(NAME.get())
        return True

    NAME.set("loop")
    steady = SteadyPulls(go_on)
    asyncio.get_running_loop().call_soon(steady.set_result, REPLY, context=contextvars.Context())
    await asyncio.sleep(0)
    assert found == ["loop"]


async def test_who_has_cancelled_gets_nothing_more() -> None:
    """As with a future: a late reply is for nobody."""
    steady = SteadyPulls(lambda reply: False)
    steady.outcome.cancel()
    assert steady.done()
    steady.set_result(REPLY)
    steady.set_exception(ValueError("late"))
    assert steady.outcome.cancelled()


def consumer(
    cluster: FakeCluster, handle: Handle, settings: PushSettings, *hooks: FilterHook
) -> PushConsumer:
    """Return a consumer from the first message on."""
    made = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        consume_from=ConsumeFrom.FIRST,
        hooks=hooks,
    )
    made.subscribe("t", handle)
    return made


def _pulls(cluster: FakeCluster) -> Sequence[Command]:
    found = cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)
    return [pull for pull in found if pull.ext["topic"] == "t"]  # and not the group's retries


async def test_each_pull_begins_behind_the_last_and_carries_what_is_done(
    cluster: FakeCluster,
) -> None:
    """Nothing is asked for twice, and no offset is committed that is not done."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 40)
    seen = Seen()
    settings = PushSettings(pull=PullSettings(batch_messages=4))
    async with consumer(cluster, seen.handle, settings):
        await until(lambda: len(seen.bodies) == 40)
    asked = [int(pull.ext["queueOffset"]) for pull in _pulls(cluster)]
    assert asked[:10] == list(range(0, 40, 4))
    committed = [int(pull.ext["commitOffset"]) for pull in _pulls(cluster)]
    assert all(done <= offset for done, offset in zip(committed, asked, strict=True))
    assert committed == sorted(committed)


async def test_flow_control_stops_pulls_that_follow_each_other(cluster: FakeCluster) -> None:
    """While a handler is stuck no more is fetched than a queue may hold, and one pull."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 200)
    go, begun = asyncio.Event(), 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal begun
        begun += 1
        await go.wait()

    pull = PullSettings(batch_messages=4, queue_messages_max=20, flow_control_delay_ms=10)
    settings = PushSettings(concurrency=2, pull=pull)
    async with consumer(cluster, handle, settings) as member:
        await until(lambda: begun == 2)
        await asyncio.sleep(0.1)
        queue = member.statistics().queues[member.queues()[0]]
        assert queue.messages == 24
        assert len(_pulls(cluster)) == 6
        go.set()
        await until(lambda: begun == 200)


async def test_a_suspended_consumer_pulls_no_more(cluster: FakeCluster) -> None:
    """What is fetched is handled; after the resume the rest comes."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 60)
    bodies: list[bytes] = []
    member: PushConsumer

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if len(bodies) == 8:
            member.suspend()

    pull = PullSettings(batch_messages=4, suspended_delay_ms=10)
    member = consumer(cluster, handle, PushSettings(pull=pull))
    async with member:
        await until(lambda: len(bodies) >= 8)
        await asyncio.sleep(0.05)
        assert 8 <= len(bodies) <= 16
        member.resume()
        await until(lambda: len(bodies) == 60)


async def test_filter_hooks_are_called_in_a_task(cluster: FakeCluster) -> None:
    """A program's code may take its time, or look at the task that it runs in."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 20)
    tasks: list[asyncio.Task[object] | None] = []

    class Look(FilterHook):
        def filter(self, context: FilterContext) -> None:
            tasks.append(asyncio.current_task())

    seen = Seen()
    settings = PushSettings(pull=PullSettings(batch_messages=4))
    async with consumer(cluster, seen.handle, settings, Look()):
        await until(lambda: len(seen.bodies) == 20)
    assert len(tasks) == 5 and None not in tasks
