"""Syncs that end when a test says so."""

from collections.abc import Sequence

from aerobee.storage.disk.worker import Job, outcome
from aerobee.storage.upkeep.flush import Flusher


class HeldBackend:
    """Syncs nothing by itself: what was submitted completes as the test says."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.done: list[tuple[int, int]] = []

    def fileno(self) -> int:
        """No number."""
        return -1

    def submit(self, syncs: Sequence[tuple[int, int]], *, log: bool = False) -> None:
        """Begin."""
        self.waiting += [token for _, token in syncs]

    def run(self, job: Job, token: int) -> None:
        """Do it at once."""
        self.done.append((token, outcome(job)))

    def completed(self) -> list[tuple[int, int]]:
        """What the test has completed."""
        done, self.done = self.done, []
        return done

    def close(self) -> None:
        """Nothing to wait for."""

    def complete(self, flusher: Flusher, token: int, error: int = 0) -> None:
        """Tell of one sync, and of the work that follows from it."""
        self.waiting.remove(token)
        self.done.append((token, error))
        self.hear(flusher)

    def hear(self, flusher: Flusher) -> None:
        """Tell of all work: a round does it in slices, and in more of them on a busy machine."""
        while self.done:
            flusher.on_readable()
