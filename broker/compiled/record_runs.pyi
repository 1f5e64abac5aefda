"""Types of the compiled module; see record_runs.pyx."""

import mmap

def gather(
    entries: mmap.mmap,
    at: int,
    count: int,
    file: memoryview,
    base: int,
    end: int,
    messages_max: int,
    bytes_max: int,
    wanted: frozenset[int] | None,
    /,
) -> tuple[bytes, int, int] | None:
    """Return records of `count` entries, how many they are, and how many entries were looked at."""
