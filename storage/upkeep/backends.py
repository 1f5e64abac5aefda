"""Ways to sync files without stopping the loop: the kernel's AIO, a thread, or here and now."""

import errno
import logging
import os
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias

from aerobee.storage.disk.aio import Kernel
from aerobee.storage.disk.files import Files, wait_readable
from aerobee.storage.disk.signals import Signal
from aerobee.storage.disk.worker import Completion, Job, Worker, outcome

log = logging.getLogger(__name__)

Sync: TypeAlias = tuple[int, int]
"""The number of a file to sync, and the token that comes back with the outcome."""


class SyncBackend(Protocol):
    """Syncs files in the background; completions come in any order."""

    def fileno(self) -> int:
        """Return a file number that is readable while completions wait."""

    def submit(self, syncs: Sequence[Sync], *, log: bool = False) -> None:
        """Begin to sync each file, at once or as soon as there is room; the log goes first.

        Each token comes back exactly once with the outcome, whatever happens, unless `close` does.
        """

    def run(self, job: Job, token: int) -> None:
        """Do other file work in the background, one job at a time; `token` comes back once."""

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call, without waiting."""

    def close(self) -> None:
        """Wait for what is under way and release everything."""


SLOTS: Final = 256  # of the kernel's context
LOG_SLOTS: Final = 32  # of them, so many wait for the log


class AioBackend:
    """The kernel syncs and rings a bell; no thread that would want the GIL.

    What the kernel has no room for waits here, and files of the log go first; queues leave slots
    free for them. Other jobs, one a second, do have a thread. OSError where there is no AIO.
    """

    def __init__(self, files: Files, kernel: Kernel) -> None:
        self._files = files
        self._kernel = kernel
        self._context = kernel.setup(SLOTS)
        self._bell = kernel.bell()
        self._jobs = kernel.jobs(self._bell)
        self._under_way = 0
        self._log: deque[Sync] = deque()
        self._others: deque[Sync] = deque()
        self._results: list[Completion] = []

    def probe(self, fd: int) -> None:
        """Sync one file and wait for it; OSError where kernel or file system cannot."""
        self.submit([(fd, 0)])
        if not wait_readable([self.fileno()], 5):
            raise OSError(errno.ETIMEDOUT, "AIO does not complete")
        for _, error in self.completed():
            if error:
                raise OSError(error, os.strerror(error))

    def fileno(self) -> int:
        """Return the number of the bell."""
        return self._bell.fileno()

    def submit(self, syncs: Sequence[Sync], *, log: bool = False) -> None:
        """Begin to sync as many as there are slots for, the rest when others have completed."""
        (self._log if log else self._others).extend(syncs)
        self._pump()

    def run(self, job: Job, token: int) -> None:
        """Give the job to the thread."""
        self._jobs.put(job, token)

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call, and begin what waited for that."""
        self._bell.clear()
        results, self._results = self._results, []
        results += self._jobs.results()
        if self._under_way:
            events = self._kernel.events(self._context)
            self._under_way -= len(events)
            results += events
            self._pump()
        return results

    def _pump(self) -> None:
        """Give the kernel what waits, as far as there are slots."""
        self._begin(self._log, SLOTS)
        self._begin(self._others, SLOTS - LOG_SLOTS)

    def _begin(self, waiting: deque[Sync], slots: int) -> None:
        while waiting and (room := slots - self._under_way) > 0:
            try:
                accepted = self._kernel.submit(
                    self._context, list(islice(waiting, room)), self._bell
                )
            except OSError as error:
                if error.errno != errno.EAGAIN:  # the first of them cannot be synced: tell so
                    self._results.append((waiting.popleft()[1], error.errno or errno.EIO))
                    self._bell.set()
                    continue
                if self._under_way:
                    return  # when something has completed there may be room
                fd, token = waiting.popleft()  # nothing would remind us: not by AIO, then
                self._jobs.put(partial(self._files.sync, fd), token)
                continue
            self._under_way += accepted
            for _ in range(accepted):
                waiting.popleft()

    def close(self) -> None:
        """Wait for what is under way; what has not begun never will."""
        self._log.clear()
        self._others.clear()
        self._jobs.close()
        self._kernel.destroy(self._context)
        self._bell.close()


class ThreadBackend:
    """One thread that syncs file after file, for systems without AIO."""

    def __init__(self, files: Files, *, eventfd: bool = hasattr(os, "eventfd")) -> None:
        self._files = files
        self._signal = Signal(eventfd=eventfd)
        self._worker = Worker(self._signal)

    def fileno(self) -> int:
        """Return the number that turns readable on completions."""
        return self._signal.fileno()

    def submit(self, syncs: Sequence[Sync], *, log: bool = False) -> None:
        """Queue the files."""
        for fd, token in syncs:
            self._worker.put(partial(self._files.sync, fd), token)

    def run(self, job: Job, token: int) -> None:
        """Queue the job."""
        self._worker.put(job, token)

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call."""
        self._signal.clear()
        return self._worker.results()

    def close(self) -> None:
        """Let the thread finish its orders and end."""
        self._worker.close()
        self._signal.close()


class DirectBackend:
    """Syncs within `submit`: for tools, and for tests that decide what a disk has kept."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._signal = Signal()
        self._results: list[Completion] = []

    def fileno(self) -> int:
        """Return the number that turns readable on completions."""
        return self._signal.fileno()

    def submit(self, syncs: Sequence[Sync], *, log: bool = False) -> None:
        """Sync each file now; its outcome waits for `completed`."""
        for fd, token in syncs:
            self.run(partial(self._files.sync, fd), token)

    def run(self, job: Job, token: int) -> None:
        """Do the job now; its outcome waits for `completed`."""
        self._results.append((token, outcome(job)))
        self._signal.set()

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call."""
        self._signal.clear()
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Release the signal."""
        self._signal.close()


def best_backend(files: Files, probe_fd: int) -> SyncBackend:
    """Return AIO if it works on the file system of `probe_fd`, a thread otherwise.

    A door of a test's own decides: see Files.kernel.
    """
    try:
        kernel = files.kernel()
        if kernel is None:
            return DirectBackend(files)
        backend = AioBackend(files, kernel)
    except OSError as error:
        log.info("store_sync backend=thread reason=%s", error)
        return ThreadBackend(files)
    try:
        backend.probe(probe_fd)
    except OSError as error:
        log.info("store_sync backend=thread reason=%s", error)
        backend.close()
        return ThreadBackend(files)
    return backend
