"""Pulls of what is kept beside a queue: read in a thread, and answered as any other pull."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from aerobee.broker.cold.views import View
from aerobee.storage.disk.files import Files
from aerobee.storage.reads.cold.fetching import Fetched, fetch
from aerobee.storage.reads.cold.request import ColdRead
from aerobee.storage.reads.results import Accept, ReadResult, ReadStatus

UNIT_READ_BYTES: Final = 256 * 1024


class ViewRequest(msgspec.Struct, frozen=True):
    """What a pull wants of a view."""

    view: View
    offset: int
    messages_max: int
    bytes_max: int
    wanted: frozenset[int] | None

    @property
    def memory_bytes(self) -> int:
        """How much is read at most, but for a single larger record."""
        return self.bytes_max + UNIT_READ_BYTES

    def read(self) -> "Viewed":
        """Read it; this may wait for the disk."""
        taken = self.view.read(self.offset, self.messages_max, self.bytes_max, self.wanted)
        return Viewed(self, taken.records, taken.next_offset)


class Viewed(msgspec.Struct, frozen=True):
    """What was read for a request: records with their offsets."""

    request: ViewRequest
    records: Sequence[tuple[int, bytes]]
    next_offset: int

    def result(self, queue_end: int, accept: Accept | None) -> ReadResult:
        """Return what the pull is answered with; an expression decides by each record."""
        found = ReadResult(ReadStatus.NO_MATCHED_MESSAGE, self.next_offset, 0, queue_end)
        for offset, record in self.records:
            if accept is not None:
                verdict = accept(memoryview(record))
                if verdict is None:
                    found.next_offset = offset
                    break
                if not verdict:
                    continue
            found.parts.append(record)
            found.count += 1
            found.bytes += len(record)
        if found.count:
            found.status = ReadStatus.FOUND
        return found


class ViewRead(Exception):
    """A pull has to read from a view first."""

    def __init__(self, request: ViewRequest) -> None:
        super().__init__(f"offset {request.offset} is read from a copy")
        self.request = request


Unread: Final = (ColdRead, ViewRead)
UnreadError: TypeAlias = ColdRead | ViewRead
"""What a pull reads has to be fetched first."""
Found: TypeAlias = Fetched | Viewed


def fetch_for(files: Files, unread: UnreadError) -> Found:
    """Fetch it; this may wait for the disk."""
    return unread.request.read() if isinstance(unread, ViewRead) else fetch(files, unread.request)
