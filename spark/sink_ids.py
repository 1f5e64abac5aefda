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

COUNTERS: Final = 1 << 20  # above that many rows, the order of some begins to matter
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
    (MessageClientIDSetter.java). Needs 4 MiB, however many rows there are: rows share counters,
    and where two different ones meet in a counter their order matters.
    """

    def __init__(self, attempted: Attempted) -> None:
        self.prefix = attempted.prefix
        self._seen = array("L", bytes(array("L").itemsize * COUNTERS))

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
        slot = number % COUNTERS
        count = self._seen[slot]
        self._seen[slot] = count + 1
        number = (number + (count << 64)) & _MASK
        digits = f"{number:032X}"
        return f"{self.prefix}{digits[:28]}00000000{digits[28:]}"
