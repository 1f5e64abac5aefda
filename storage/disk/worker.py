"""One thread for file work that may take its time; it starts with its first job."""

import errno
import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

Job = Callable[[], object]
"""Work that touches files only; an OSError of it is reported as its number."""

Completion = tuple[int, int]
"""The token that was submitted, and 0 or the error number."""


class Bell(Protocol):
    """What the owner of a store watches; Signal is the real one."""

    def fileno(self) -> int:
        """Return the number to watch."""

    def set(self) -> None:
        """Make it readable."""

    def clear(self) -> None:
        """Make it unreadable."""

    def close(self) -> None:
        """Release it."""


class Worker:
    """Does one job after the other, in the order of `put`; `results` and `bell` tell of the end."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._jobs: queue.SimpleQueue[tuple[Job, int] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Completion] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, job: Job, token: int) -> None:
        """Have a job done, here and now where no thread can be had; its token comes back."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="store-files", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the next job tries again
                log.warning("store_thread_failed error=%s", error)
                self._results.put((token, outcome(job)))
                self._bell.set()
                return
            self._thread = thread
        self._jobs.put((job, token))

    def results(self) -> list[Completion]:
        """Return what has ended since the last call."""
        results: list[Completion] = []
        while not self._results.empty():
            results.append(self._results.get())
        return results

    def close(self) -> None:
        """Wait for the jobs that were put, and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (order := self._jobs.get()) is not None:
            job, token = order
            self._results.put((token, outcome(job)))
            self._bell.set()


def outcome(job: Job) -> int:
    """Do a job; return 0 or its error number."""
    try:
        job()
    except OSError as error:
        return error.errno or errno.EIO
    except Exception:  # somebody waits for the outcome: a thread must not die of it in silence
        log.exception("store_job_failed")
        return errno.EIO
    return 0
