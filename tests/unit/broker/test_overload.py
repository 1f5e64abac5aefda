"""More than the broker can serve in time: what waited for too long is refused, at no one's cost."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.brokers import pull_command, running_broker, send_command
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.live import Live
from aerobee.broker.overload.lateness import BEAT_S, DISK_BUSY, FIRST_READS_S, TIMED_OUT, Lateness
from aerobee.broker.overload.refusing import without_sends
from aerobee.broker.overload.unread import QUEUE_BYTES_MIN, SO_BUF_LOCK, Unread, watch
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


def looks(unread: Unread, now_s: float, count: int) -> float:
    """Read 1 MiB each 25 ms, which is 40 MiB/s: 4 MiB are served in half of 200 ms."""
    for _ in range(count):
        now_s += 0.025
        unread.full_read(1 << 20, now_s, 0.2)
    return now_s


def test_a_sockets_queue_becomes_as_short_as_it_is_served_in_time() -> None:
    """While the load lasts; it grows back, and is the system's affair again at last."""
    queued, sizes = [16 << 20], list[int]()
    unread = Unread(lambda: queued[0], sizes.append)
    now_s = looks(unread, 0.0, 6)
    assert [round(size / 1e5) for size in sizes] == [42]
    queued[0] = 1 << 18
    now_s = looks(unread, now_s, 2)
    assert (sizes[-1], unread.size) == (0, 0)
    queued[0] = 1 << 30
    for _ in range(6):
        now_s += 0.1
        unread.full_read(1 << 10, now_s, 0.2)
    assert sizes[-1] == QUEUE_BYTES_MIN
    assert not unread.is_over(now_s + 0.5), "a queue that was cut is followed"
    assert unread.is_over(now_s + 1.1)
    assert sizes[-1] == 0


def test_a_pause_of_the_broker_cuts_no_queue() -> None:
    """What came meanwhile is long, and is served at once: the next look finds it short."""
    queued, sizes = [1 << 19], list[int]()
    unread = Unread(lambda: queued[0], sizes.append)
    now_s = looks(unread, 0.0, 3)
    queued[0] = 4 << 20
    unread.full_read(1 << 18, now_s + 10, 0.2)
    queued[0] = 3 << 20
    looks(unread, now_s + 10, 5)
    assert sizes == []


def test_a_queue_that_is_served_in_time_is_left_to_the_system() -> None:
    """No system call but the look, one each LOOK_INTERVAL_S, and none where reads are not full."""
    sizes, asked = list[int](), list[int]()

    def unread_bytes() -> int:
        asked.append(1)
        return 1 << 20

    unread = Unread(unread_bytes, sizes.append)
    for step in range(100):
        unread.full_read(1 << 18, step * 0.01, 0.2)
    assert sizes == [] and len(asked) < 50
    assert unread.is_over(1.0) and sizes == []


def test_a_real_socket_is_cut_and_given_back_to_the_system() -> None:
    """Or a peer that is far away would be as slow as its short queue, until it connects anew."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as peer,
        server.accept()[0] as sock,
    ):
        sock.setblocking(False)
        peer.setblocking(False)
        queue = watch(sock.fileno())
        for step in range(6):
            with suppress(BlockingIOError):
                while True:
                    peer.send(bytes(1 << 16))
            queue.full_read(1 << 10, step * 0.1, 0.2)
        assert queue.size == QUEUE_BYTES_MIN
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == QUEUE_BYTES_MIN
        assert sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
        assert queue.is_over(9.0)
        assert not sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
