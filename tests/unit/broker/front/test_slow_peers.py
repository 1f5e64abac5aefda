"""What lies unread for too long is refused; who only sends slowly, or much at once, is not hurt."""

import time
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.front import connection as connections
from aerobee.broker.front.unread import FULL_READ_BYTES, QUEUE_BYTES_MIN, Unread
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame

WAIT_S = 0.2


class Clock:
    """A clock that goes on by `step_s` whenever it is asked."""

    def __init__(self) -> None:
        self.now_s, self.step_s = 100.0, 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that refuses what waited for too long."""
    async with running_broker(tmp_path, brokerFastFailureEnable="true") as running:
        yield running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of what is read, which is before whatever is late for the loop."""
    clock = Clock()
    monkeypatch.setattr(connections, "monotonic", clock)
    return clock


async def test_messages_that_come_slowly_are_no_messages_that_wait(
    broker: Broker, clock: Clock
) -> None:
    """Each takes half a second on its line, and the next one has begun when it is whole."""
    connection, wire = connect(broker)
    await feed(connection, wire, [encode_frame(send_command())])
    await until(lambda: wire.replies())
    wire.written.clear()
    connection.unread = Unread(lambda: 1448, lambda: 0, lambda size: None)  # came meanwhile
    data = b"".join(encode_frame(send_command(bytes(1 << 16))) for _ in range(4))
    for at in range(0, len(data), 1 << 12):
        piece, clock.now_s = data[at : at + (1 << 12)], clock.now_s + 0.03
        await feed(connection, wire, [piece[:2000], piece[2000:]])
    await until(lambda: len(wire.replies()) == 4)
    assert {reply.code for reply in wire.replies()} == {ResponseCode.SUCCESS}
    assert broker.context.front.lateness.refused == 0


async def test_what_lay_in_a_socket_for_too_long_is_refused_and_the_rest_is_served(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the loop comes in time: how long is known from the bytes that had come at each look."""
    connection, wire = connect(broker)
    await feed(connection, wire, [encode_frame(send_command())])
    await until(lambda: wire.replies())
    wire.written.clear()
    queued = [0]
    connection.unread = unread = Unread(lambda: queued[0], lambda: 0, lambda size: None)
    frames = [encode_frame(send_command(bytes(1 << 16))) for _ in range(6)]
    monkeypatch.setattr(broker.context.front.lateness, "in_time_until_s", inf)
    broker.context.front.lateness.rest()
    before, now_s = broker.context.front.lateness.refused, time.monotonic()
    queued[0] = sum(map(len, frames[:3]))
    unread.late_bytes(0, now_s - 0.6, 0.2)  # three of them had come by then
    unread.late_bytes(0, now_s - 0.3, 0.2)
    queued[0] += sum(map(len, frames[3:5]))
    unread.late_bytes(0, now_s - 0.01, 100)  # and five by now
    queued[0] = 0
    await feed(connection, wire, frames[:2])
    await until(lambda: len(wire.replies()) == 2)
    assert {reply.code for reply in wire.replies()} == {ResponseCode.SYSTEM_BUSY}
    await feed(connection, wire, frames[2:])
    await until(lambda: len(wire.replies()) == 6)
    codes = [reply.code for reply in wire.replies()]
    refused = codes.count(ResponseCode.SYSTEM_BUSY)
    assert refused >= 5, "what had come by a look is late when the look before it is so long ago"
    assert broker.context.front.lateness.refused - before == refused


async def test_what_was_read_and_put_off_for_too_long_is_refused(
    broker: Broker, clock: Clock
) -> None:
    """The socket is empty, and yet the last ones would be acknowledged half a second later."""
    connection, wire = connect(broker)
    await feed(connection, wire, [encode_frame(send_command())])
    await until(lambda: wire.replies())
    wire.written.clear()
    connection.unread = Unread(lambda: 0, lambda: 0, lambda size: None)
    clock.step_s = 0.03  # of a turn, in which others are served; it is asked twice
    per_turn = connection.limits.frames_per_turn_max
    connection.data_received(encode_frame(send_command()) * (8 * per_turn))
    await until(lambda: len(wire.replies()) == 8 * per_turn)
    codes = [reply.code for reply in wire.replies()]
    assert codes[:per_turn] == [ResponseCode.SUCCESS] * per_turn
    assert codes[-per_turn:] == [ResponseCode.SYSTEM_BUSY] * per_turn


async def test_a_turn_that_takes_long_refuses_only_what_can_have_waited_so_long(
    broker: Broker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat that was late says of the loop what a connection's last read knows better."""
    connection, wire = connect(broker)
    await feed(connection, wire, [encode_frame(send_command())])
    await until(lambda: wire.replies())
    broker.context.front.lateness.rest()
    codes = []
    connection.unread = Unread(lambda: 100, lambda: 0, lambda size: None)  # came meanwhile
    for turn_s, late in ((0.1, False), (0.15, True), (0.15, True), (0.25, True)):
        wire.written.clear()
        clock.now_s += turn_s
        monkeypatch.setattr(broker.context.front.lateness, "in_time_until_s", -inf if late else inf)
        await feed(connection, wire, [encode_frame(send_command())])
        await until(lambda: wire.replies())
        codes += [reply.code for reply in wire.replies()]
    assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.SYSTEM_BUSY]


def test_a_far_peer_is_let_go_when_the_broker_waits_for_it() -> None:
    """It sends 64 KiB per 100 ms, which its short queue allows; some comes while it is read."""
    sizes, queued = list[int](), [FULL_READ_BYTES]
    unread = Unread(lambda: queued[0], lambda: QUEUE_BYTES_MIN, sizes.append)

    def read(count: int, left: int) -> None:
        unread.read_bytes, queued[0] = count, left
        assert unread.late_bytes(count, now_s, WAIT_S) == 0
        unread.serve(count, 0)

    now_s = 1.0
    for _ in range(4):
        read(FULL_READ_BYTES, FULL_READ_BYTES)
        now_s += 0.03
    assert unread.size == QUEUE_BYTES_MIN
    for _ in range(20):
        now_s += 0.1
        if unread.is_over(now_s, -inf):
            break
        read(FULL_READ_BYTES - 1448, 1448)
        read(1448, 0)
    else:
        pytest.fail("it has stayed slow")
    assert sizes == [0]


def test_bursts_that_are_served_at_once_cut_no_queue() -> None:
    """A megabyte each 100 ms is long for its socket, and no load."""
    sizes, queued = list[int](), [0]
    unread = Unread(lambda: queued[0], lambda: 1 << 20, sizes.append)
    now_s = 1.0
    for _ in range(20):
        for left in (3, 2, 1, 0):
            unread.read_bytes, queued[0], now_s = 1 << 18, left << 18, now_s + 0.0005
            assert unread.late_bytes(1 << 18, now_s, WAIT_S) == 0
            unread.serve(1 << 18, 0)
        now_s += 0.1
    assert sizes in ([], [0])
    assert unread.is_over(now_s + 1, -inf)


def test_a_large_message_that_is_read_in_pieces_cuts_no_queue() -> None:
    """Nothing is served until it is whole, which does not mean that the broker is slow."""
    sizes, queued = list[int](), [1 << 18]
    unread = Unread(lambda: queued[0], lambda: 8 << 20, sizes.append)
    now_s, held = 1.0, 0
    for _ in range(16):
        unread.read_bytes, held, now_s = 256_000, held + 256_000, now_s + 0.021
        unread.late_bytes(held, now_s, WAIT_S)
    assert (unread.size, sizes) == (8 << 20, [])
