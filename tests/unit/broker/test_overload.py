"""More than the broker can serve in time: what waited for too long is refused, at no one's cost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.brokers import pull_command, running_broker, send_command
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.live import Live
from aerobee.broker.overload.lateness import BEAT_S, DISK_BUSY, FIRST_READS_S, TIMED_OUT, Lateness
from aerobee.broker.overload.refusing import without_sends
from aerobee.broker.overload.unread import QUEUE_BYTES_MIN, Unread
from aerobee.broker.settings import BrokerSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, Codec
from aerobee.remoting.frame import encode_frame


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock of its own for every test."""
    return Clock()


def lateness_of(clock: Clock, **changes: object) -> Lateness:
    """Return what is tested, with RocketMQ's limits."""
    settings = BrokerSettings(broker_ip1="127.0.0.1").model_copy(update=changes)
    return Lateness(Live(settings), clock)


def test_a_loop_that_comes_in_time_refuses_nothing(clock: Clock) -> None:
    """Before the first beat, between beats, and up to the limit."""
    lateness = lateness_of(clock)
    clock.now_s += 10
    assert lateness.remark() is None, "a start may take long"
    for late_s in (0.0, 0.0, 0.19):
        lateness.beat()
        assert lateness.remark() is None
        clock.now_s += BEAT_S + late_s
        assert lateness.remark() is None
    lateness.beat()
    assert lateness.remark() is None


def test_what_is_read_after_a_stall_is_refused_and_nothing_later(clock: Clock) -> None:
    """Whether the loop reads or beats first; soon after, what comes is fresh."""
    lateness = lateness_of(clock)
    lateness.beat()
    clock.now_s += BEAT_S + 0.35
    assert lateness.remark() == TIMED_OUT
    assert round(lateness.waited_ms()) == 350
    lateness.beat()
    assert lateness.remark() == TIMED_OUT and round(lateness.waited_ms()) == 350
    clock.now_s += FIRST_READS_S + 0.001
    assert lateness.remark() is None
    clock.now_s += BEAT_S - FIRST_READS_S
    lateness.beat()
    assert lateness.remark() is None


def test_a_loop_that_serves_all_the_time_refuses_nobody(clock: Clock) -> None:
    """Under load that lasts a turn is long because requests are served in it."""
    lateness = lateness_of(clock)
    lateness.beat()
    for _ in range(5):
        clock.now_s += 1.0
        lateness.serving_s += 0.95
        assert lateness.remark() is None
        lateness.beat()
        assert lateness.remark() is None


def test_a_log_that_takes_long_to_write_is_named(clock: Clock) -> None:
    """Past osPageCacheBusyTimeOutMills the remark says that it was the page cache."""
    lateness = lateness_of(clock)
    lateness.beat()
    clock.now_s += BEAT_S + 0.9
    lateness.wrote(0.9)
    assert lateness.remark() == TIMED_OUT
    clock.now_s += 0.2
    lateness.wrote(1.1)
    assert lateness.remark() == DISK_BUSY
    lateness.beat()
    clock.now_s += BEAT_S
    lateness.beat()
    assert lateness.remark() is None


def test_the_limits_are_settings(clock: Clock) -> None:
    """waitTimeMillsInSendQueue moves the limit, brokerFastFailureEnable=false takes it away."""
    lazy = lateness_of(clock, wait_time_mills_in_send_queue=2000)
    never = lateness_of(clock, broker_fast_failure_enable=False)
    for lateness in (lazy, never):
        lateness.beat()
    clock.now_s += BEAT_S + 1.9
    assert lazy.remark() is None and never.remark() is None
    clock.now_s += 0.2
    assert lazy.remark() == TIMED_OUT and never.remark() is None


def test_sends_of_every_codec_are_taken_out_and_others_are_left() -> None:
    """One-way ones silently; the bytes of a frame that is not whole stay where they are."""
    oneway = send_command()
    frames = [
        send_command(),
        pull_command(3),
        send_command(code=RequestCode.SEND_BATCH_MESSAGE),
        type(oneway)(oneway.code, oneway.ext, b"x", oneway.opaque, FLAG_ONEWAY),
        type(oneway)(oneway.code, oneway.ext, b"x", 77, codec=Codec.MSGPACK),
    ]
    data = b"".join(map(encode_frame, frames))
    tail = encode_frame(send_command())[:50]
    rest, refusals, count = without_sends(data + tail, 1 << 20, TIMED_OUT, 312.7)
    assert rest == encode_frame(frames[1]) + tail
    assert (len(refusals), count) == (3, 4)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that refuses what waited for too long."""
    async with running_broker(tmp_path, brokerFastFailureEnable="true") as running:
        yield running


async def test_after_a_stall_sends_are_refused_and_pulls_are_served(broker: Broker) -> None:
    """In RocketMQ's words, with code 2, upon which producers take another broker."""
    connection, wire = connect(broker)
    first = send_command()
    await feed(connection, wire, [encode_frame(first)])
    for _ in range(200):
        if wire.replies():
            break
        await asyncio.sleep(0.01)
    wire.written.clear()
    late, pull = send_command(), pull_command(0)
    lateness = broker._lateness
    lateness.beat()
    assert lateness._beat_s is not None
    lateness._beat_s -= 0.5  # the loop was away
    connection.data_received(encode_frame(late) + encode_frame(pull))
    lateness._beat_s += 0.5
    for _ in range(3):
        await asyncio.sleep(0)
    replies = {reply.opaque: reply for reply in wire.replies()}
    refused = replies[late.opaque]
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert refused.remark is not None and refused.remark.startswith(
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 4"
    )
    assert refused.remark.endswith("ms, size of queue: 1")
    assert replies[pull.opaque].code == ResponseCode.SUCCESS
    assert lateness.refused == 1
    await feed(connection, wire, [encode_frame(late)])
    assert wire.replies()[-1].code == ResponseCode.SUCCESS


def test_a_sockets_queue_becomes_as_short_as_it_is_served_in_time() -> None:
    """A queue in which bytes lie for 400 ms is cut to what goes in 100, and grows back later."""
    queued = [4 << 20]
    sizes: list[int] = []
    unread = Unread(lambda: queued[0], sizes.append)
    now_s, count = 0.0, 1 << 18
    for _ in range(17):  # 16 of them bring the queue's 4 MiB
        unread.full_read(count, now_s, 0.2)
        now_s += 0.025
    assert round(unread.waited_s, 3) == 0.4
    assert [round(size / 1000) for size in sizes] == [1049], "1 MiB, a quarter"
    queued[0] = 1 << 18
    for _ in range(60):
        unread.full_read(count, now_s, 0.2)
        now_s += 0.001
    assert sizes[-1] == 4 << 20
    queued[0] = 1 << 17
    unread.full_read(count, now_s, 0.2)
    unread.full_read(count, now_s + 9, 0.2)
    assert sizes[-1] == QUEUE_BYTES_MIN


def test_a_queue_that_is_served_in_time_is_left_to_the_system() -> None:
    """No system call but the look, and none at all where reads are not full."""
    sizes: list[int] = []
    unread = Unread(lambda: 1 << 20, sizes.append)
    for step in range(100):
        unread.full_read(1 << 18, step * 0.01, 0.2)
    assert sizes == []
