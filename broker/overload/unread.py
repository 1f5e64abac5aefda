"""How many bytes may lie in a socket before they are read, and how long those that are read did."""

import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

FULL_READ_BYTES: Final = 64 * 1024  # a read that brings so much may have left some
QUEUE_BYTES_MIN: Final = 128 * 1024  # has room for one packet of a loopback interface
LOOK_INTERVAL_S: Final = 0.02
PAUSE_S: Final = 0.2  # between two looks: the broker was stopped, or had other work
OVER_S: Final = 1.0  # without a full read, after which the load is over

SO_BUF_LOCK: Final = 72  # Linux 5.14: who decides about the queue's length, we or the system
_LOCK_RECEIVE: Final = 2


class Unread:
    """The queue in one connection's socket, looked at while reads are full.

    A look says how many bytes have come so far; what came between two looks has waited since the
    first of them at most. So each read knows how much of it has waited for too long.

    What is served between two looks says how long the queue will take. As soon as a read leaves
    something behind, the queue may not become longer. Where it takes more than a quarter of what
    requests may wait, it is made as short as is served in that time, and the peer's own grows
    instead: what has arrived is then served in time, at the best rate there is. It is cut when it
    is full, unless many are: else TCP would have to drop what is on its way. A look after a pause
    of the broker says nothing. When the broker would have to wait for the peer, or the load is
    over, `resize(0)` lets the system decide again, or a peer that is far away would be slow for
    good.
    """

    def __init__(
        self,
        unread_bytes: Callable[[], int],
        keep: Callable[[], int],
        resize: Callable[[int], None],
    ) -> None:
        self._unread_bytes = unread_bytes
        self._keep = keep  # as long as it is; returns how long
        self._resize = resize
        self._looks: deque[tuple[float, int]] = deque()  # when, and how much had come till then
        self._late = 0  # what had come for so long that it is late
        self._looked_s = -inf
        self._served_then = 0  # at the last look, without what was refused
        self._full_s = 0.0  # when a read was full
        self._drained = False  # nothing was left after the last read
        self.served = 0  # bytes, requests that were refused too
        self.refused = 0  # ... and these alone
        self.size = 0  # what the queue was made, 0: the system decides

    def late_bytes(self, count: int, now_s: float, wait_s: float) -> int:
        """Note that `count` bytes are about to be served; return how many of them are late.

        These are the first ones; late is what may have waited for more than `wait_s`.
        """
        looks, queued = self._looks, self._unread_bytes()
        if queued or count >= FULL_READ_BYTES:
            self._full_s = now_s
        if self._drained:
            looks.clear()  # what has come since is read as it comes
        self._drained = not queued
        if not looks or now_s - looks[-1][0] >= LOOK_INTERVAL_S:
            self._adjust(queued, now_s, wait_s)
            looks.append((now_s, self.served + count + queued))
        while len(looks) > 1 and now_s - looks[0][0] > wait_s:
            looks.popleft()
            self._late = looks[0][1]
        return min(count, max(0, self._late - self.served))

    def is_over(self, now_s: float) -> bool:
        """Return whether there is nothing more to look at; if so the system decides again."""
        if now_s - self._full_s < OVER_S:
            return False
        self._set(0)
        return True

    def _adjust(self, queued: int, now_s: float, wait_s: float) -> None:
        """Choose a length, from what was served since the last look."""
        served, passed_s = self.served - self.refused, now_s - self._looked_s
        may_be = int((served - self._served_then) / passed_s * wait_s / 4)
        self._looked_s, self._served_then = now_s, served
        if PAUSE_S <= passed_s < inf:
            return
        if not self.size:
            if queued:
                self.size = self._keep()
                if 0 < self.size < QUEUE_BYTES_MIN:
                    self._set(QUEUE_BYTES_MIN)
        elif queued > may_be:
            many = may_be < QUEUE_BYTES_MIN < queued  # busy connections: together it would be late
            if many or 2 * queued >= self.size or self._late > self.served:
                self._set(min(self.size, max(QUEUE_BYTES_MIN, may_be)))
        elif not queued and self.size < may_be:
            self._set(0)

    def _set(self, size: int) -> None:
        if size != self.size:
            self.size = size
            self._resize(size)


def watch(fd: int) -> Unread:
    """Return the queue of a socket, by its file number."""
    return Unread(lambda: _unread_bytes(fd), lambda: _keep(fd), lambda size: _resize(fd, size))


def _unread_bytes(fd: int) -> int:
    with suppress(OSError):
        count: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        return count
    return 0


def _keep(fd: int) -> int:
    """Let a queue not grow; return how long it is, 0 where it could not be let grow again."""
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
