"""Where a run's files lie: in memory, if the system has such a place."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for one run, and remove it."""
    place = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="aerobee-disk-", dir=place) as folder:
        yield Path(folder)
