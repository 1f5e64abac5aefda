"""Types of the compiled module; see index_slices.pyx."""

from typing import Any, TypeAlias

Bytes: TypeAlias = Any
"""Anything with the buffer protocol: bytes where they are read, a bytearray or a map else."""
Ints: TypeAlias = Any
"""An array of int64."""
Numbers: TypeAlias = Any
"""An array of uint32."""

MORE: int
FULL: int
OTHER: int

class KeyRuns:
    """Hashes of the keys of records, in runs that wait for the index; a buffer of those."""

    waiting_bytes: int
    bytes_max: int
    left_out: int
    def __init__(self, bytes_max: int) -> None: ...
    def note(self, records: bytes, position: int) -> None:
        """Hash the keys of whole records that the log has taken in at a position."""

    def take(self, count: int) -> None:
        """Forget the first `count` bytes of what waits, which are whole runs."""

    def swap(self, other: KeyRuns) -> None:
        """Have what waits in another one, which gets what waits in this one."""

    def trim(self) -> None:
        """Let go of the memory, if nothing waits in it."""

    def __len__(self) -> int: ...

def index_records(
    data: Bytes,
    at: int,
    length: int,
    base: int,
    keys_done: int,
    slots: Bytes,
    dirty: Bytes,
    entries: Bytes,
    state: Ints,
) -> tuple[int, int, int]:
    """Add the keys of the records from `at` on; return the end, keys done there, and why."""

def index_log(
    fd: int,
    base: int,
    position: int,
    until: int,
    keys_done: int,
    buffer: Bytes,
    slots: Bytes,
    dirty: Bytes,
    entries: Bytes,
    state: Ints,
) -> tuple[int, int, int]:
    """Add the keys of the records of a log file; return where it ended, keys done, and why."""

def index_runs(
    runs: Bytes,
    at: int,
    until: int,
    position: int,
    keys_done: int,
    log_end: int,
    slots: Bytes,
    dirty: Bytes,
    entries: Bytes,
    state: Ints,
) -> tuple[int, int, int, int]:
    """Add the keys of runs; return where it ended in them and in the log, keys done, and why."""

def add_sums(
    data: Bytes, begun: int, room: int, block_bytes: int, sums: Numbers
) -> tuple[int, int]:
    """Sum blocks; return how many are full, whose sums are noted, and the sum of what follows."""

def link_entries(
    data: bytes, number: int, log_end: int, position: int, slots: Bytes
) -> tuple[int, int, int]:
    """Have slots lead to entries; return how many are sound, the last position, slots filled."""

def unlink_entries(data: bytes, slots: Bytes) -> int:
    """Have slots lead to what they led to before these entries; return slots emptied."""

def follow_chain(
    fd: int,
    entries_at: int,
    number: int,
    count: int,
    key_hash: int,
    begin_ms: int,
    earliest_ms: int,
    latest_ms: int,
    entries_max: int,
    positions: Ints,
    sums: Numbers,
) -> tuple[int, int, int, bool]:
    """Note the positions of a hash and a time; return found, the next entry, walked, sound."""
