"""How a read ended, and what it found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Accept: TypeAlias = Callable[[memoryview], bool | None]
"""Decides by a whole record whether it is wanted; None ends the read before it."""


class ReadStatus(Enum):
    """How a read ended (GetMessageStatus.java)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_RESET = "OFFSET_RESET"  # said by the broker, which sends a client elsewhere
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(slots=True)
class ReadResult:
    """What a read found; `parts` are the records' bytes, in order, neighbours in one piece."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    parts: list[bytes | memoryview] = field(default_factory=list)
    count: int = 0
    bytes: int = 0
