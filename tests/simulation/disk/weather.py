"""What the disk has in store: which of its operations fail, and how long they take."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from aerobee.storage.layout import LOCK

ALLOCATING: Final = frozenset(
    {"prepare", "fallocate", "resize", "create", "replace", "mkdir", "allocate"}
)
WRITING: Final = frozenset({*ALLOCATING, "write", "clear", "remove", "sync_directory"})
SYNC_S: Final = (0.0002, 0.02)
SLOW_S: Final = (0.5, 9.0)


@dataclass(slots=True)
class Weather:
    """The troubles of the moment; times are of the clock, in seconds."""

    dice: Random
    now_s: Callable[[], float]
    no_space_until_s: float = 0.0
    errors_until_s: float = 0.0  # operations that write fail now and then
    reads_until_s: float = 0.0  # so do reads
    slow_until_s: float = 0.0
    syncs_to_fail: int = 0
    only: str = ""  # fail syncs of paths that contain this
    unheard: bool = False  # whoever asked for a sync that fails dies before it is told
    used_ratio: float = 0.5
    failed: list[str] = field(default_factory=list)  # what has failed, for verdicts

    @property
    def fair(self) -> bool:
        """Whether nothing fails, and nothing takes long, from now on."""
        now_s = self.now_s()
        return not self.syncs_to_fail and now_s >= max(
            self.no_space_until_s, self.errors_until_s, self.reads_until_s, self.slow_until_s
        )

    def clear_up(self) -> None:
        """End all troubles."""
        self.no_space_until_s = self.errors_until_s = self.reads_until_s = self.slow_until_s = 0.0
        self.syncs_to_fail, self.unheard = 0, False
        self.used_ratio = 0.5

    def fail_syncs(self, count: int, only: str, *, unheard: bool = False) -> None:
        """Let the next few syncs fail, of files whose path contains a word."""
        self.syncs_to_fail, self.only, self.unheard = count, only, unheard

    def error(self, kind: str, path: str) -> int:
        """Return the number of the error that an operation meets, 0 for none."""
        now_s, code = self.now_s(), 0
        if kind == "sync":
            code = self._sync_error(path)
        elif kind in ALLOCATING and now_s < self.no_space_until_s:
            code = errno.ENOSPC
        elif (kind in WRITING and now_s < self.errors_until_s) or (
            kind == "read" and now_s < self.reads_until_s
        ):
            code = errno.EIO if self.dice.random() < 0.3 else 0
        if code:
            self.failed.append(f"{kind} {path}")
        return code

    def _sync_error(self, path: str) -> int:
        if path == LOCK:
            return 0  # it is synced to see whether the kernel can; failing, it would be a thread
        if self.syncs_to_fail and self.only in path:
            self.syncs_to_fail -= 1
            return errno.EIO
        return 0

    def sync_takes_s(self, path: str = "") -> float:
        """Return how long the next sync takes."""
        if path != LOCK and self.now_s() < self.slow_until_s and self.dice.random() < 0.5:
            return self.dice.uniform(*SLOW_S)
        return self.dice.uniform(*SYNC_S)
