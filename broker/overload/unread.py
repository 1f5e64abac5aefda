"""How long bytes lie in a socket before they are read, and how many may."""

import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Final

FULL_READ_BYTES: Final = 64 * 1024  # a read that brings so much may have left some
QUEUE_BYTES_MIN: Final = 64 * 1024
QUEUE_BYTES_MAX: Final = 4 << 20


class Unread:
    """The queue in one connection's socket, looked at when reads are full.

    A mark is set at its end; when the reads have come to it, the time since is how long its bytes
    waited. If that is more than half of what requests may wait, the queue is made as short as is
    served in that time, and the peer's own queue grows instead: a producer that cannot send goes
    elsewhere, and what has arrived is served at the best rate there is. To refuse it would cost as
    much as to store it.
    """

    def __init__(self, unread_bytes: Callable[[], int], resize: Callable[[int], None]) -> None:
        self._unread_bytes = unread_bytes
        self._resize = resize
        self._read = 0
        self._mark: tuple[int, float, int] | None = None  # where, when, and the queue's bytes
        self._size = 0  # what the queue was made, 0: the system decides
        self.waited_s = 0.0

    def full_read(self, count: int, now_s: float, wait_s: float) -> None:
        """Note a read of `count` bytes that may have left some; requests may wait for `wait_s`."""
        self._read += count
        if self._mark is not None and self._read >= self._mark[0]:
            _, since_s, queued = self._mark
            self._mark = None
            self.waited_s = now_s - since_s
            self._adjust(queued, wait_s / 2)
        if self._mark is None and (queued := self._unread_bytes()):
            self._mark = self._read + queued, now_s, queued

    def _adjust(self, queued: int, aim_s: float) -> None:
        size = self._size
        if self.waited_s > aim_s:
            size = max(QUEUE_BYTES_MIN, int(queued * aim_s / self.waited_s))
        elif size and self.waited_s < aim_s / 4:
            size = min(QUEUE_BYTES_MAX, size * 2)
        if size != self._size:
            self._size = size
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
    with suppress(OSError), socket.socket(fileno=socket.dup(fd)) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)  # the system doubles it
