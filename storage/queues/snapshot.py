"""Where a queue's files are, for readers that have no map of them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Where the files of one queue are, with the entries that they have; a thread may keep it."""

    folder: Path
    file_entries: int
    min_offset: int
    max_offset: int
