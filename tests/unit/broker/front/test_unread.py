"""How long a socket's queue may be, and what of it is late."""

import socket
from contextlib import suppress
from math import inf
from typing import Final

import pytest

from aerobee.broker.front.unread import (
    EMPTYING_READ_BYTES,
    FULL_READ_BYTES,
    QUEUE_BYTES_ENOUGH,
    QUEUE_BYTES_MIN,
    SO_BUF_LOCK,
    Unread,
    longest_bytes,
    watch,
)

LOAD_S: Final = 0.025


def served(unread: Unread, now_s: float, count: int, served_bytes: int = 1 << 20) -> float:
    """Serve 1 MiB each 25 ms, which is 40 MiB/s: 2 MiB in a quarter of 200 ms."""
    for _ in range(count):
        now_s += LOAD_S
        assert unread.late_bytes(served_bytes, now_s, 0.2) == 0
        unread.serve(served_bytes, 0)
    return now_s


KEPT: Final = 8 << 20


def test_a_sockets_queue_is_kept_as_short_as_it_is_served_in_time() -> None:
    """From when a read leaves something behind; it may grow where the broker would have to wait."""
    queued, sizes = [0], list[int]()
    unread = Unread(lambda: queued[0], lambda: KEPT, sizes.append)
    now_s = served(unread, 1.0, 3)
    assert unread.size == 0, "what is read at once is no queue"
    queued[0] = 1 << 18
    now_s = served(unread, now_s, 3)
    assert (unread.size, sizes) == (KEPT, [])
    queued[0] = 3 << 20
    now_s = served(unread, now_s, 3)
    assert sizes == [], "what is on its way would be dropped"
    queued[0] = 4 << 20
    now_s = served(unread, now_s, 1)
    assert [round(size / 1e5) for size in sizes] == [21]
    queued[0] = 1 << 20
    now_s = served(unread, now_s, 5, 5 << 18)
    assert len(sizes) == 1, "it is served in time, and there is always some"
    queued[0] = 0
    now_s = served(unread, now_s, 3, 4 << 20)
    assert (unread.size, sizes[1:]) == (0, [0])
    queued[0] = 4 << 20
    now_s = served(unread, now_s, 3, FULL_READ_BYTES)
    assert sizes[-1] == QUEUE_BYTES_MIN, "a broker that has become slow"
    assert not unread.is_over(now_s + 0.9, -inf), "a queue that was cut is followed"
    assert not unread.is_over(now_s + 1.1, now_s + 0.2), "others keep the broker"
    assert unread.is_over(now_s + 1.1, -inf)
    assert sizes[-1] == 0


def test_a_short_queue_grows_to_what_a_read_takes_where_that_is_served_in_time() -> None:
    """And no longer; a broker that serves the connection slowly leaves it as it is."""
    for served_bytes, size in ((1 << 20, QUEUE_BYTES_ENOUGH), (32 << 10, QUEUE_BYTES_MIN)):
        sizes = list[int]()
        unread = Unread(lambda: 1000, lambda: QUEUE_BYTES_MIN, sizes.append)
        unread.read_bytes = FULL_READ_BYTES
        now_s = served(unread, 1.0, 8, served_bytes)
        assert unread.size == size
        assert sizes == ([size] if size > QUEUE_BYTES_MIN else [])
        unread.read_bytes = 1 << 10
        served(unread, now_s, 8, served_bytes)
        assert unread.size == size, "reads are not full, and there is always some"


def test_a_queue_that_is_longer_than_the_system_makes_one_is_not_cut_to_grow() -> None:
    """It would be as short as net.core.rmem_max says, which the system's own choice may exceed."""
    for keep, grown in ((lambda: 400_000, []), (lambda: QUEUE_BYTES_MIN, [300_000])):
        sizes = list[int]()
        unread = Unread(lambda: 1000, keep, sizes.append, 300_000)
        unread.read_bytes = FULL_READ_BYTES
        served(unread, 1.0, 8)
        assert sizes == grown


def test_a_system_that_allows_short_queues_alone_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever they were made, they would be shorter than a packet."""
    monkeypatch.setattr(socket.socket, "getsockopt", lambda self, level, name: 8_192)
    longest_bytes.cache_clear()
    try:
        with socket.socket() as sock:
            assert watch(sock.fileno())._keep() == 0
        assert longest_bytes() == 8_192
    finally:
        longest_bytes.cache_clear()


def test_late_is_what_had_come_so_long_ago() -> None:
    """And not what came since, nor anything after the socket was found empty."""
    queued = [3000]
    unread = Unread(lambda: queued[0], lambda: 0, lambda size: None)
    assert unread.late_bytes(FULL_READ_BYTES, 1.0, 0.2) == 0
    queued[0] += 500
    assert unread.late_bytes(FULL_READ_BYTES, 1.1, 0.2) == 0
    queued[0] += 500
    assert unread.late_bytes(FULL_READ_BYTES, 1.19, 0.2) == 0
    assert unread.late_bytes(FULL_READ_BYTES, 1.21, 0.2) == FULL_READ_BYTES
    unread.served += FULL_READ_BYTES
    queued[0] -= 2000
    assert unread.late_bytes(2000, 1.22, 0.2) == 2000
    unread.served += 2000
    assert unread.late_bytes(2000, 1.22, 0.2) == 1500, "what had come when it was 1.1"
    unread.served += 2000
    queued[0] = 0
    assert unread.late_bytes(100, 1.25, 0.2) == 0
    unread.served += 100
    queued[0] = 5000
    assert unread.late_bytes(100, 9.0, 0.2) == 0, "it had been empty"


def test_a_pause_of_the_broker_cuts_no_queue() -> None:
    """What came meanwhile is long, and is read at once."""
    queued, sizes = [0], list[int]()
    unread = Unread(lambda: queued[0], lambda: KEPT, sizes.append)
    now_s = served(unread, 1.0, 3)
    queued[0] = 4 << 20
    unread.late_bytes(1 << 18, now_s + 10, 0.2)
    unread.served += 1 << 18
    queued[0] = 0
    served(unread, now_s + 10, 5)
    assert (unread.size, sizes) == (0, [])


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
            queue.late_bytes(1 << 16, 1 + step * 0.1, 0.2)
        assert queue.size == QUEUE_BYTES_MIN
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == QUEUE_BYTES_MIN
        assert sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
        assert queue.is_over(9.0, -inf)
        assert not sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
        for _ in range(100_000):  # a peer that has much to send gets a longer queue again
            with suppress(BlockingIOError):
                peer.send(bytes(1 << 18))
            with suppress(BlockingIOError):
                sock.recv(1 << 18)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > QUEUE_BYTES_MIN:
                break
        else:
            pytest.fail("the queue has stayed short")


def test_what_is_encrypted_refuses_little_too_early_and_nothing_too_late() -> None:
    """The socket's queue is counted as it came: with TLS by a fifth too long for short messages.

    So what came just behind the late bytes may count as late, too, by that share of the queue.
    """
    share, arrive, serve, step_s = 0.25, 40 << 20, 30 << 20, 0.025
    queued = [0]
    plain = Unread(lambda: queued[0], lambda: 0, lambda size: None)
    tls = Unread(lambda: int(queued[0] * (1 + share)), lambda: 0, lambda size: None)
    taken, count, refused_early = 0, int(serve * step_s), 0
    for step in range(1, 200):
        now_s = step * step_s
        queued[0] = int(arrive * now_s) - taken - count
        queued[0] = max(queued[0], 0)
        late, late_tls = (each.late_bytes(count, now_s, 0.2) for each in (plain, tls))
        assert late <= late_tls
        if late < late_tls:
            refused_early += 1
            arrived_s = (taken + late_tls) / arrive
            assert now_s - arrived_s >= 0.2 - share * queued[0] / arrive - step_s
        plain.serve(count, 0)
        tls.serve(count, 0)
        taken += count
    assert refused_early


def test_what_has_come_since_a_read_that_left_nothing_is_as_old_as_that_read() -> None:
    """Hundreds of senders refill their sockets at once, and a turn lasts for 150 ms.

    All would be refused turn after turn if what is there behind a read counted as what may have
    come before it, and the broker would serve nothing but refusals.
    """
    unread = Unread(lambda: 100_000, lambda: 0, lambda size: None)
    for turn in range(20):
        unread.read_bytes = 100_000
        assert unread.late_bytes(100_000, 1 + 0.15 * turn, 0.2) == 0
        assert unread.since_s == (1 + 0.15 * (turn - 1) if turn else -inf)
        unread.serve(100_000, 0)
    assert unread.late_bytes(100_000, 4.1, 0.2) == 100_000, "a turn of 250 ms"


def test_a_read_that_may_have_left_some_says_nothing_of_what_comes_next() -> None:
    """Nor one whose frames are put off: they are older than the socket's last empty moment."""
    unread = Unread(lambda: 0, lambda: 0, lambda size: None)
    unread.read_bytes = EMPTYING_READ_BYTES
    unread.late_bytes(EMPTYING_READ_BYTES, 1.0, 0.2)
    unread.serve(EMPTYING_READ_BYTES, 0)
    unread.read_bytes = 5000
    unread.late_bytes(5000, 1.1, 0.2)
    assert unread.since_s == -inf
    unread.serve(2000, 3000)
    unread.late_bytes(3000, 1.15, 0.2)
    assert unread.since_s == -inf, "they were read at 1.1"
    unread.serve(3000, 0)
    unread.late_bytes(5000, 1.3, 0.2)
    assert unread.since_s == -inf, "the socket was not read at 1.15"
    unread.serve(5000, 0)
    unread.late_bytes(5000, 1.35, 0.2)
    assert unread.since_s == 1.3
