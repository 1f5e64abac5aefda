"""How often a server made its files durable, counted by a library that is preloaded into it."""

import struct
from pathlib import Path
from typing import Final

from benchmarks.targets import compiling

KINDS: Final = ("fsync", "fdatasync", "msync", "aio", "sync_file_range")
_COUNTS: Final = struct.Struct(f"={len(KINDS)}Q")


class SyncCounts:
    """The counts of one server, in a file that its processes map."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(bytes(_COUNTS.size))

    def environment(self) -> list[str]:
        """Return the NAME=VALUE words with which the server has to be started."""
        return [f"LD_PRELOAD={compiling.sync_counter()}", f"SYNC_COUNTS={self.file}"]

    def total(self) -> int:
        """Return the number of syncs so far, of every kind together."""
        return sum(self.by_kind().values())

    def by_kind(self) -> dict[str, int]:
        """Return the number of syncs so far, of each kind."""
        return dict(zip(KINDS, _COUNTS.unpack(self.file.read_bytes()), strict=True))
