"""What a read needs that is not in memory."""

import msgspec

from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.snapshot import QueueSnapshot


class ColdRequest(msgspec.Struct, frozen=True):
    """Entries of one queue from `offset` on, and those of their records that a read would take.

    `count` entries are looked at. With `every` record (a filter decides by what is in it) they are
    read as far as `bytes_max` goes, else those that are `wanted`, up to `messages_max` of them.
    """

    log: LogSnapshot
    queue: QueueSnapshot
    offset: int
    count: int
    messages_max: int
    bytes_max: int
    wanted: frozenset[int] | None = None
    every: bool = False

    @property
    def memory_bytes(self) -> int:
        """How much is read for it at most, but for a single record larger than `bytes_max`."""
        return self.count * ENTRY_BYTES + 2 * self.bytes_max


class ColdRead(Exception):
    """The first bytes that a read needs are not in memory: fetch `request`, then read from that."""

    def __init__(self, request: ColdRequest) -> None:
        super().__init__(f"{request.queue.folder} from {request.offset} on is not in memory")
        self.request = request
