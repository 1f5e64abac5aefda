"""How many bytes may lie in a socket before they are read."""

import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Final

FULL_READ_BYTES: Final = 64 * 1024  # a read that brings so much may have left some
QUEUE_BYTES_MIN: Final = 256 * 1024  # with room for one packet alone, TCP waits after each
QUEUE_BYTES_MAX: Final = 4 << 20  # a queue that may be longer is the system's affair again
LOOK_INTERVAL_S: Final = 0.02
OVER_S: Final = 1.0  # without a full read, after which the load is over

SO_BUF_LOCK: Final = 72  # Linux 5.14: who decides about the queue's length, we or the system
_LOCK_RECEIVE: Final = 2


class Unread:
    """The queue in one connection's socket, looked at while reads are full.

    What is read in LOOK_INTERVAL_S says how long the queue will take. Where that is more than half
    of what requests may wait, twice in a row, the queue is made as short as is served in that time,
    and the peer's own grows instead: a producer that cannot send goes elsewhere, and what has
    arrived is served at the best rate there is. To refuse it would cost as much as to store it. One
    look alone says nothing: the broker may have been stopped. When the load is over, `resize(0)`
    lets the system decide again, or a peer that is far away would be slow for good.
    """

    def __init__(self, unread_bytes: Callable[[], int], resize: Callable[[int], None]) -> None:
        self._unread_bytes = unread_bytes
        self._resize = resize
        self._read = 0  # since the last look
        self._looked_s: float | None = None
        self._full_s = 0.0  # when a read was full
        self._long = False  # the last look found too much
        self.size = 0  # what the queue was made, 0: the system decides

    def full_read(self, count: int, now_s: float, wait_s: float) -> None:
        """Note a read of `count` bytes that may have left some; requests may wait for `wait_s`."""
        self._full_s = now_s
        self._read += count
        looked_s = self._looked_s
        if looked_s is None:
            self._looked_s, self._read = now_s, 0
            return
        passed_s = now_s - looked_s
        if passed_s < LOOK_INTERVAL_S:
            return
        may_be = int(self._read / passed_s * wait_s / 2)
        self._looked_s, self._read = now_s, 0
        self._adjust(self._unread_bytes(), may_be)

    def is_over(self, now_s: float) -> bool:
        """Note a read that was not full; return whether there is nothing more to look at."""
        if self.size and now_s - self._full_s < OVER_S:
            self._looked_s = None
            return False
        self._set(0)
        return True

    def _adjust(self, queued: int, may_be: int) -> None:
        before, self._long = self._long, queued > may_be
        if self._long:
            size = max(QUEUE_BYTES_MIN, may_be)
            if before and (not self.size or size < self.size):
                self._set(size)
        elif self.size and queued < may_be // 4:
            self._set(self.size * 2)

    def _set(self, size: int) -> None:
        size = 0 if size > QUEUE_BYTES_MAX else size
        if size != self.size:
            self.size = size
            self._resize(size)


def watch(fd: int) -> Unread:
    """Return the queue of a socket, by its file number."""
    return Unread(lambda: _unread_bytes(fd), lambda size: _resize(fd, size))


def _unread_bytes(fd: int) -> int:
    with suppress(OSError):
        count: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        return count
    return 0


def _resize(fd: int, size: int) -> None:
    """Make a queue so long, 0: as the system likes; nothing where that could not be undone."""
    with suppress(OSError), socket.socket(fileno=socket.dup(fd)) as same:
        same.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, _LOCK_RECEIVE if size else 0)
        if size:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)  # the system doubles it
