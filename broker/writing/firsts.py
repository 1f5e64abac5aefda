"""Which message was the first of its unique key: asked of topics that store a retry once."""

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from aerobee.remoting.message.record import Record

KEY_BYTES: Final = 16
_DIGITS: Final = re.compile(r"[0-9A-F]{32}")

TopicState: TypeAlias = tuple[int, int, int]


def key_of(unique_key: str) -> bytes:
    """Return the 16 bytes that stand for a unique key: its digits, or SHA-256 of any other text."""
    if _DIGITS.fullmatch(unique_key):
        return bytes.fromhex(unique_key)
    return digest(unique_key.encode("utf-8", "replace"))


def digest(text: bytes) -> bytes:
    """Return the first 16 bytes of SHA-256."""
    return hashlib.sha256(text).digest()[:KEY_BYTES]


class SeenKeys(Protocol):
    """Unique keys of topics, each with its message's position; see features/dedup/seen_keys.py."""

    @property
    def clock_ms(self) -> int:
        """The latest time that was ever told."""

    @property
    def put_count(self) -> int:
        """How many keys have ever been noted."""

    @property
    def count(self) -> int:
        """How many keys are known."""

    @property
    def evicted(self) -> int:
        """How many keys have gone before their time, for want of room."""

    def add_topic(self, window_ms: int) -> int:
        """Return the number of one more topic."""

    def set_window(self, topic: int, window_ms: int) -> None:
        """Let a topic's keys be known for so long from now on; negative: not at all."""

    def find(self, topic: int, key: bytes, now_ms: int) -> int:
        """Return the position of the message that has a key, -1 where none had it in time."""

    def put(self, topic: int, key: bytes, position: int, now_ms: int) -> None:
        """Note the key of a message, which lies behind all others."""

    def forget(self, topic: int, key: bytes) -> None:
        """Drop a key."""

    def take_back(self, position: int) -> None:
        """Drop all keys of messages from a position on."""

    def expire(self, topic: int, now_ms: int, count_max: int) -> int:
        """Drop up to so many keys of a topic whose time is over; return how many went."""

    def trim(self, begin: int, count_max: int) -> int:
        """Drop up to so many keys of messages before a position; return how many went."""

    def state(self, topic: int) -> TopicState:
        """Return count, when the oldest came, and when the last one that went before its time."""

    def rewind(self) -> None:
        """Let `rows` begin with the oldest key."""

    def rows(self, count_max: int) -> bytes:
        """Return up to so many keys more, packed; b"" behind the last one."""

    def load(self, rows: bytes, begin: int, end: int, topics: Mapping[int, int]) -> None:
        """Take packed keys; `topics` has the numbers here by those there."""


class Firsts(Protocol):
    """Knows the firsts of the topics that it watches; see features/dedup/firsts.py."""

    def watches(self, topic: str) -> bool:
        """Whether a topic stores a retry once."""

    def known(self, topic: str, unique_key: str, now_ms: int) -> bool:
        """Whether the first of a key may be there, as `first` tells; True until all is known."""

    async def first(self, topic: str, unique_key: str) -> Record | None:
        """Return the record of the first message that has a key, None where there is none.

        Waits until it is known what the log has. Raises RequestError where that takes too long, or
        the disk refuses.
        """

    def forget(self, topic: str, unique_key: str, position: int) -> None:
        """Let a key be free again whose message at a position nobody will ever see."""

    def put(self, topic: str, unique_key: str, position: int, now_ms: int) -> None:
        """Note a message that was appended, behind all others, and committed."""

    def answered(self, topic: str) -> None:
        """Count a duplicate."""
