"""Threads that may be stuck in a read, and that nobody waits for."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

log = logging.getLogger(__name__)

Job = Callable[[], None]


class DiskThreads:
    """Up to `count_max` threads, each started when it is first needed.

    They are daemons: a process ends while a disk does not answer them, which it would not do with
    those of `concurrent.futures`.
    """

    def __init__(self, count_max: int) -> None:
        self.count_max: Final = count_max
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.count = 0

    def has_room(self, busy: int) -> bool:
        """Whether one more job would begin at once beside those `busy`; starts a thread by need."""
        if busy < self.count:
            return True
        if self.count >= self.count_max:
            return False
        thread = threading.Thread(target=self._work, name="cold-read", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:  # pids or memory ran out: tried again by need
            log.warning("cold_read_thread_failed threads=%d error=%s", self.count, error)
            return False
        self.count += 1
        return True

    def put(self, job: Job) -> None:
        """Have a job done."""
        self._jobs.put(job)

    def close(self) -> None:
        """End each thread after its job; waits for none."""
        for _ in range(self.count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException:  # others need this thread
                log.exception("cold_read_job_failed")
