"""The two ids of a message: the broker's, which says where it lies, and the client's."""

import itertools
import os
import struct
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.message.layout import HOST_V4_BYTES, HOST_V6_BYTES
from aerobee.remoting.message.record import host_address, host_bytes

_POSITION: Final = struct.Struct(">q")
_ID_CHARS: Final = tuple(2 * (host + _POSITION.size) for host in (HOST_V4_BYTES, HOST_V6_BYTES))
"""How long an id of either kind is, for an IPv4 host and an IPv6 one."""
_HEX: Final = [f"{byte:02X}" for byte in range(256)]

KEPT_BESIDE: Final = 1 << 62
"""From here on a position is no place in a log: of messages kept beside it by compaction; ours."""
_KEPT_OFFSET_BITS: Final = 47  # the queue's number has the 15 before them


def kept_position(queue_id: int, offset: int) -> int:
    """Return the position that a message has which is kept beside the log, by queue and offset.

    It stays the same wherever the message moves there, and is none of the log's.
    """
    return KEPT_BESIDE | queue_id << _KEPT_OFFSET_BITS | offset


def kept_place(position: int) -> tuple[int, int] | None:
    """Return queue and offset of a message that is kept beside the log, None for one that is not.

    kept_place(kept_position(3, 1000))  # (3, 1000)
    """
    if position < KEPT_BESIDE:
        return None
    queue_id, offset = divmod(position - KEPT_BESIDE, 1 << _KEPT_OFFSET_BITS)
    return queue_id, offset


def offset_message_id(host: str, port: int, position: int) -> str:
    """Return the broker's id of a message: its address and the position in its log, in hex.

    32 characters, 56 where the host is an IPv6 address (MessageDecoder.createMessageId).
    """
    return (host_bytes(host, port) + _POSITION.pack(position)).hex().upper()


def parse_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """Return host, port and position of a broker's message id.

    Raises ValueError for text that is none.
    """
    if len(message_id) not in _ID_CHARS:
        raise ValueError(
            f"message id of {len(message_id)} characters, expected {_ID_CHARS[0]} or "
            f"{_ID_CHARS[1]}: {message_id[:60]!r}"
        )
    try:
        packed = bytes.fromhex(message_id)
    except ValueError:
        packed = b""
    if len(packed) * 2 != len(message_id):  # fromhex skips spaces
        raise ValueError(f"message id is not hexadecimal: {message_id!r}")
    host, port = host_address(packed[: -_POSITION.size])
    (position,) = _POSITION.unpack(packed[-_POSITION.size :])
    return host, port, position


class UniqueIds:
    """Makes a client's message ids (UNIQ_KEY): no two alike in a month, from any process.

    In hex: ip 4 or 16 bytes, process id 2, a number of this object 4, milliseconds since the month
    began (local time) 4, counter 2. Without `ip` four random bytes stand for it, so that this
    module needs no network. The child of a fork makes other ids than its parent goes on with, from
    an object of both; `on_renewed` is called there, for who keeps how they begin. Source:
    MessageClientIDSetter.java.
    """

    def __init__(self, ip: str | None = None, *, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._ip = ip
        self._counter = itertools.count()
        self._now_ms = now_ms
        self.on_renewed: Callable[[], None] | None = None
        self._month_ms, self._next_month_ms = _month(now_ms())
        self.renew()
        _made.add(self)

    def renew(self) -> None:
        """Make ids that nobody else makes, from the next one on."""
        address = host_bytes(self._ip, 0)[:-4] if self._ip else os.urandom(4)
        fixed = address + (os.getpid() & 0xFFFF).to_bytes(2, "big") + os.urandom(4)
        self._prefix = fixed.hex().upper()
        self._last_ms = -1
        self._begin = ""  # of all the ids of that millisecond
        if self.on_renewed is not None:
            self.on_renewed()

    def next(self) -> str:
        """Return an id of 32 characters, 56 for an IPv6 address."""
        return self.at(self._now_ms())

    def at(self, now_ms: int) -> str:
        """Return an id for somebody who has just looked at the clock."""
        if now_ms != self._last_ms:
            if now_ms >= self._next_month_ms:
                self._month_ms, self._next_month_ms = _month(now_ms)
            since_ms = max(0, now_ms - self._month_ms)  # a clock set back must not go negative
            self._last_ms, self._begin = now_ms, f"{self._prefix}{since_ms:08X}"
        number = next(self._counter)
        return f"{self._begin}{_HEX[number >> 8 & 0xFF]}{_HEX[number & 0xFF]}"


_made: WeakSet[UniqueIds] = WeakSet()


def _renew_all() -> None:
    for ids in list(_made):
        ids.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def _month(now_ms: int) -> tuple[int, int]:
    """Return when this month and the next one begin, in local time."""
    now = time.localtime(now_ms / 1000)
    year, month = now.tm_year, now.tm_mon
    this = time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))
    following = time.mktime((year, month + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(this * 1000), int(following * 1000)
