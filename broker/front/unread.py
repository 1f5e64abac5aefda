"""How many bytes may lie in a socket before they are read, and how long those that are read did."""

import fcntl
import socket
import sys
import termios
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import inf
from typing import Final

FULL_READ_BYTES: Final = 64 * 1024  # a read that brings so much may have left some
EMPTYING_READ_BYTES: Final = 128 * 1024  # ... but less than that has not: it asked for 256 KiB
QUEUE_BYTES_MIN: Final = 128 * 1024  # has room for one packet of a loopback interface
QUEUE_BYTES_ENOUGH: Final = 512 * 1024  # for all that a read takes: half may be the system's own
LOOK_INTERVAL_S: Final = 0.02
PAUSE_S: Final = 0.2  # between two looks: the broker was stopped, or had other work
OVER_S: Final = 1.0  # without a full read, after which the load is over

SO_BUF_LOCK: Final = 72  # Linux 5.14: who decides about the queue's length, we or the system
_LOCK_RECEIVE: Final = 2
_NONE: Final = bytes(4)  # an int of C


class Unread:
    """The queue in one connection's socket, looked at while the broker is behind with it.

    A look says how many bytes have come so far; what came between two looks has waited since the
    first of them at most. So each read knows how much of it has waited for too long. A read that
    leaves nothing is the better look: all that the next one brings has come since (`since_s`).

    What is taken out between two looks says how long the queue will take. As soon as reads are
    full, it may not become longer than what a read takes, if that is served in time: turns cost the
    loop much, and from a queue as connections begin with a read brings a third of that. Where it
    takes more than a quarter of what requests may wait, and was not once empty meanwhile, it is
    made as short as is served in that time, and the peer's own grows instead: what has arrived is
    then served in time, at the best rate there is. It is cut when it is full, unless many are: else
    TCP would have to drop what is on its way. A look after a pause of the broker says nothing. When
    the broker would have to wait for the peer, or the load is over, `resize(0)` lets the system
    decide again, or a peer that is far away would be slow for good.
    """

    def __init__(
        self,
        unread_bytes: Callable[[], int],
        keep: Callable[[], int],
        resize: Callable[[int], None],
        longest: int = QUEUE_BYTES_ENOUGH,
    ) -> None:
        self._unread_bytes = unread_bytes
        self._keep = keep  # as long as it is; returns how long
        self._resize = resize
        self._longest = longest  # that it is made where it is to grow
        self._looks: deque[tuple[float, int]] = deque()  # when, and how much had come till then
        self._late = 0  # what had come for so long that it is late
        self._looked_s = -inf
        self._taken_then = 0  # out of the queue by the last look, without what was refused
        self._behind_s = -inf  # when it had not once been empty since the look before
        self._drained = False  # nothing was left after the last read
        self._put_off = False  # what is about to be served was read before
        self._empty_s = -inf  # when the last read left nothing, if it did
        self.since_s = -inf  # when the read before left nothing: what is served now has come since
        self._emptied = True  # ... nor put off, of one since the last look
        self.read_bytes = 0  # what the last read brought
        self.served = 0  # bytes, requests that were refused too
        self.refused = 0  # ... and these alone
        self.size = 0  # what the queue was made, 0: the system decides

    def late_bytes(self, count: int, now_s: float, wait_s: float) -> int:
        """Note that `count` bytes are about to be served, or held; return how many are late.

        These are the first ones; late is what may have waited for more than `wait_s`. To be called
        after each read, or what comes slowly would be taken for what waits.
        """
        looks, queued = self._looks, self._unread_bytes()
        come = self.served + count + queued
        self.since_s, self._empty_s = -inf if self._put_off else self._empty_s, -inf
        if not self._put_off and 0 < self.read_bytes < EMPTYING_READ_BYTES:
            come, self._empty_s = come - queued, now_s  # the rest has come since
        if self._drained:
            looks.clear()  # what has come since is read as it comes
        self._drained = not queued
        if now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._adjust(count, queued, now_s, wait_s)
        if not looks or now_s - looks[-1][0] >= LOOK_INTERVAL_S:
            looks.append((now_s, come))
        while len(looks) > 1 and now_s - looks[0][0] > wait_s:
            looks.popleft()
            self._late = looks[0][1]
        return min(count, max(0, self._late - self.served))

    def serve(self, count: int, left: int) -> None:
        """Note that `count` bytes were served, and `left` are put off until others had a turn."""
        self.served += count
        self._put_off = left > 0
        if left:
            self._drained = False
        elif self._drained:
            self._emptied = True

    def is_over(self, now_s: float, late_at_s: float) -> bool:
        """Return whether there is nothing more to look at; if so the system decides again.

        `late_at_s` is when the loop was late for the last time, whoever kept it.
        """
        if self._looked_s == -inf or now_s - max(self._behind_s, late_at_s) < OVER_S:
            return False
        self._set(0)
        return True

    def _adjust(self, count: int, queued: int, now_s: float, wait_s: float) -> None:
        """Choose a length, from what was taken out of the queue since the last look."""
        passed_s = now_s - self._looked_s
        taken = self.served + count - self.read_bytes - self.refused
        may_be = int((taken - self._taken_then) / passed_s * wait_s / 4)
        self._looked_s, self._taken_then = now_s, taken
        emptied, self._emptied = self._emptied, False
        if not emptied or passed_s == inf:
            self._behind_s = now_s
        if PAUSE_S <= passed_s < inf:
            return
        if not self.size:
            if self.read_bytes + queued >= FULL_READ_BYTES:
                self.size = self._keep()
                if 0 < self.size < QUEUE_BYTES_MIN:
                    self._set(QUEUE_BYTES_MIN)
        elif queued > may_be:
            many = may_be < QUEUE_BYTES_MIN < queued  # busy connections: together it would be late
            if not emptied and (many or 2 * queued >= self.size or self._late > self.served):
                self._set(min(self.size, max(QUEUE_BYTES_MIN, may_be)))
        elif not queued and self.size < may_be:
            self._set(0)
        elif self.size < min(may_be, self._longest) and self.read_bytes >= FULL_READ_BYTES:
            self._set(min(may_be, self._longest))

    def _set(self, size: int) -> None:
        if size != self.size:
            self.size = size
            self._resize(size)


def watch(fd: int) -> Unread:
    """Return the queue of a socket, by its file number."""
    return Unread(
        lambda: _unread_bytes(fd),
        lambda: _keep(fd),
        lambda size: _resize(fd, size),
        longest_bytes(),
    )


@cache
def longest_bytes() -> int:
    """Return how long a queue is made that is to grow: what is enough, or twice net.core.rmem_max.

    The system's own choice (net.ipv4.tcp_rmem) may be longer, and who asks for more than it allows
    would cut it. Whatever is changed there counts when the broker is started again.
    """
    with suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BYTES_ENOUGH // 2)
        return min(QUEUE_BYTES_ENOUGH, probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    return QUEUE_BYTES_ENOUGH


def _unread_bytes(fd: int) -> int:
    try:
        answer: bytes = fcntl.ioctl(
            fd, termios.FIONREAD, _NONE
        )  # in each read while reads are full
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)


def _keep(fd: int) -> int:
    """Let a queue not grow; return how long it is, 0 where it is left to the system.

    So where it could not be let grow again, or not be made as long as a packet needs.
    """
    if longest_bytes() < QUEUE_BYTES_MIN:
        return 0
    with suppress(OSError), socket.socket(fileno=socket.dup(fd)) as same:
        same.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, _LOCK_RECEIVE)
        return same.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return 0


def _resize(fd: int, size: int) -> None:
    """Make a queue so long, 0: as the system likes; nothing where that could not be undone."""
    with suppress(OSError), socket.socket(fileno=socket.dup(fd)) as same:
        same.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, _LOCK_RECEIVE if size else 0)
        if size:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)  # the system doubles it
