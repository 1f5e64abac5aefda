"""Traces are sent in the background; whatever becomes of them, who appends never notices."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from time import monotonic

import pytest
from support.waiting import until

from aerobee.client.message import Message, MessageQueue, SendResult, SendStatus
from aerobee.client.traces import dispatcher as dispatching
from aerobee.client.traces.batches import WAITING_MAX, TraceItem
from aerobee.client.traces.dispatcher import TraceDispatcher
from aerobee.client.traces.records import SubBeforeTrace, decode_traces
from aerobee.remoting.complaints import TOLD_MAX
from aerobee.remoting.errors import NotConnected


class Sender:
    """A producer that keeps what it gets, or does what a test wants of it instead."""

    def __init__(self, instead: Callable[[], object] | None = None) -> None:
        self.instead = instead
        self.messages: list[Message] = []
        self.starts = self.closes = 0
        self.refuses_start = False

    async def start(self) -> None:
        self.starts += 1
        if self.refuses_start:
            raise NotConnected("no cluster")

    async def send(self, message: Message, *, timeout_ms: int | None = None) -> SendResult:
        assert timeout_ms == 5_000
        if self.instead is not None:
            result = self.instead()
            if isinstance(result, asyncio.Future):
                await result
        self.messages.append(message)
        return SendResult(SendStatus.SEND_OK, "", "", MessageQueue("t", "b", 0), 0)

    async def close(self) -> None:
        self.closes += 1


def item(number: int, region: str = "r") -> TraceItem:
    """Return what a hook says of one message."""
    trace = SubBeforeTrace(
        timestamp_ms=number, region=region, group="g", request_id="R", message_id=str(number),
        retry_times=0, keys=None,
    )  # fmt: skip
    return TraceItem("t", region, (trace,))


def ids(sender: Sender) -> list[int]:
    """Return the numbers of the traces that were sent."""
    traces = itertools.chain.from_iterable(decode_traces(each.body) for each in sender.messages)
    return [int(each.message_id) for each in traces]


async def test_full_groups_leave_at_once_and_the_rest_at_the_close() -> None:
    """Nothing starts before the first trace; each topic's groups keep their order."""
    sender = Sender()
    traces = TraceDispatcher(lambda: sender, "traces", 10)
    await asyncio.sleep(0)
    assert sender.starts == 0
    for number in range(25):
        traces.append(item(number))
    await until(lambda: len(ids(sender)) == 20, what="two groups")
    assert ids(sender) == list(range(20)) and sender.starts == 1
    assert {message.topic for message in sender.messages} == {"traces"}
    await traces.close()
    assert ids(sender) == list(range(25)) and sender.closes == 1
    assert (traces.sent, traces.failed, traces.dropped) == (25, 0, 0)
    traces.append(item(99))
    await traces.close()
    assert len(ids(sender)) == 25


async def test_an_old_trace_leaves_without_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 5 s in RocketMQ; here it does not take a test that long."""
    monkeypatch.setattr("aerobee.client.traces.batches.AGE_MAX_S", 0.05)
    sender = Sender()
    traces = TraceDispatcher(lambda: sender, "traces", 10)
    began_s = monotonic()
    traces.append(item(1))
    await until(lambda: sender.messages, what="the trace")
    assert monotonic() - began_s >= 0.05
    await traces.close()


async def test_the_channel_cloud_has_a_topic_for_each_region() -> None:
    """As RocketMQ names them."""
    sender = Sender()
    traces = TraceDispatcher(lambda: sender, "", 10)
    traces.append(item(1, "cn-a"))
    traces.append(item(2, "cn-b"))
    await traces.close()
    topics = {message.topic for message in sender.messages}
    assert topics == {"rmq_sys_TRACE_DATA_cn-a", "rmq_sys_TRACE_DATA_cn-b"}


def _fail() -> None:
    raise NotConnected("nobody there")


def _break() -> None:
    raise RuntimeError("unforeseen")


@pytest.mark.parametrize("instead", [_fail, _break])
async def test_what_cannot_be_sent_is_counted_and_forgotten(instead: Callable[[], object]) -> None:
    """The next ones are tried again."""
    sender = Sender(instead)
    traces = TraceDispatcher(lambda: sender, "traces", 10)
    for number in range(30):
        traces.append(item(number))
    await until(lambda: traces.failed == 30, what="they have failed")
    sender.instead = None
    traces.append(item(30))
    await traces.close()
    assert ids(sender) == [30] and (traces.sent, traces.failed) == (1, 30)


async def test_a_broker_that_hangs_costs_traces_and_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory is bounded, an append takes microseconds, and a close a moment."""
    monkeypatch.setattr(dispatching, "CLOSE_S", 0.1)
    sender = Sender(lambda: asyncio.get_running_loop().create_future())
    traces = TraceDispatcher(lambda: sender, "traces", 10)
    began_s = monotonic()
    for number in range(3 * WAITING_MAX):
        traces.append(item(number))
        if number % 100 == 0:
            await asyncio.sleep(0)
    assert traces.dropped >= WAITING_MAX - 100
    await traces.close()
    assert monotonic() - began_s < 20 and sender.closes == 1


async def test_a_close_that_is_cancelled_leaves_no_task() -> None:
    """Whoever closes an application may be in a hurry."""
    sender = Sender(lambda: asyncio.get_running_loop().create_future())
    traces = TraceDispatcher(lambda: sender, "traces", 1)
    traces.append(item(1))
    closing = asyncio.create_task(traces.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    def left() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "traces"]

    await until(lambda: not left(), what="the task to end")


async def test_a_producer_that_does_not_start_is_tried_again() -> None:
    """With the next traces: the cluster may be there by then."""
    sender = Sender()
    sender.refuses_start = True
    traces = TraceDispatcher(lambda: sender, "traces", 1)
    traces.append(item(1))
    await until(lambda: traces.failed == 1, what="it has failed")
    sender.refuses_start = False
    traces.append(item(2))
    await until(lambda: ids(sender) == [2], what="the next one")
    await traces.close()
    assert (sender.starts, sender.closes) == (2, 1)


async def test_what_is_dropped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Not as often as it happens; whoever appends hears of nothing."""
    traces = TraceDispatcher(lambda: Sender(_fail), "traces", 10)
    with caplog.at_level(logging.INFO, logger=dispatching.__name__):
        for number in range(WAITING_MAX + 50):
            traces.append(item(number))
    told = [each.getMessage() for each in caplog.records if "dropped" in each.getMessage()]
    assert told[0] == "traces dropped, 1 so far: too many wait" and len(told) <= TOLD_MAX
    assert traces.dropped == 50
    await traces.close()
