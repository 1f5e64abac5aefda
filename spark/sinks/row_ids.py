"""Message ids that a row has in every attempt to write it.

A client's ids are random; here they are a hash of what is written: by which stream, in which
micro-batch and partition, and the row's content. Equal rows of one partition are numbered. A
task that is tried again gives its rows the same ids, in whatever order they come, and so finds
what an earlier attempt has stored; consumers may tell by the id (msgId, UNIQ_KEY) what came twice.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final, NamedTuple

from aerobee.client.message import Message

EXACT_ROWS: Final = 1 << 18  # different ones; of those behind them the order begins to matter
COUNTERS: Final = 1 << 20
PREFIX_BYTES: Final = 8
_MASK: Final = (1 << 128) - 1


class Attempted(NamedTuple):
    """What is attempted, maybe more than once: one partition of one batch of one writer."""

    sink: str
    query: str
    batch: int
    partition: int

    @property
    def prefix(self) -> str:
        """How the ids of all its rows begin, and no others."""
        text = "\0".join(map(str, self))
        return blake2b(text.encode(), digest_size=PREFIX_BYTES).hexdigest().upper()


class RowIds:
    """Gives each row of an attempt its id: 28 bytes in hex, in the shape of ids of IPv6 clients.

    The bytes in which these hold a time are zero, which tools take for the month's first day
    (MessageClientIDSetter.java). Needs 30 MiB at most, however many rows there are: behind the
    first EXACT_ROWS rows share counters, and where two different ones meet in a counter their order
    matters.
    """

    def __init__(self, attempted: Attempted) -> None:
        self.prefix = attempted.prefix
        self._seen: dict[int, int] = {}
        self._shared: array[int] | None = None

    def next(self, message: Message) -> str:
        """The id of the next row."""
        hashed = blake2b(digest_size=16)
        tags, keys = message.tags or "", message.keys
        parts = [message.topic, tags, keys if isinstance(keys, str) else " ".join(keys)]
        parts += [f"{name}\x01{value}" for name, value in sorted(message.properties.items())]
        text = "\x02".join(parts).encode(errors="surrogatepass")
        hashed.update(b"%d %d " % (len(text), message.delay_level))
        hashed.update(text)
        hashed.update(message.body)
        number = int.from_bytes(hashed.digest(), "big")
        number = (number + (self._earlier(number) << 64)) & _MASK
        digits = f"{number:032X}"
        return f"{self.prefix}{digits[:28]}00000000{digits[28:]}"

    def _earlier(self, number: int) -> int:
        """How many rows with this hash, or this counter, came before."""
        count = self._seen.get(number)
        if count is not None or len(self._seen) < EXACT_ROWS:
            self._seen[number] = (count or 0) + 1
            return count or 0
        if self._shared is None:
            self._shared = array("I", bytes(array("I").itemsize * COUNTERS))
        slot = number % COUNTERS
        self._shared[slot] += 1
        return self._shared[slot] - 1
