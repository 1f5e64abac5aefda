"""What the log needs of the queue that it appends to, and no more."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class QueueTail(Protocol):
    """The end of a queue: entry `max_offset` may be packed at once while it is below `limit`.

    It goes into `buffer`, memory that begins with entry `base`, at `(max_offset - base) * 20`, by
    `pack_entry`; at the limit `extend` comes first. `prefix` is what each record of the queue has
    behind its body, the topic with its length, and `magic` says how long that length is. A refusal
    names its queue by `topic` and id.
    """

    topic: str
    queue_id: int
    magic: int
    prefix: bytes
    buffer: bytearray
    base: int
    limit: int
    max_offset: int
    pack_entry: Callable[..., None]

    @property
    def directory(self) -> Path:
        """Where the files are."""

    def extend(self, count: int = 1) -> None:
        """Make room for more entries, `count` if that can be; AppendRefused where there is none."""

    def take_back(self, offset: int) -> None:
        """End at that offset again; OSError: entries behind it may stay."""
