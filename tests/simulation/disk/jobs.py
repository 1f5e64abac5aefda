"""A job of the store's thread that stands still between its operations while the loop goes on."""

import errno
import threading
from typing import TYPE_CHECKING

from aerobee.storage.disk.worker import Job, outcome

if TYPE_CHECKING:
    from simulation.disk.door import Door


class SteppedJob:
    """Runs a job in a thread of its own, which only ever runs while `step` waits for it.

    The door calls `pause` before each operation of that thread.
    """

    def __init__(self, job: Job, door: "Door") -> None:
        self.ended = False
        self.result = errno.EIO
        self._job = job
        self._door = door
        self._failure: BaseException | None = None
        self._go_on = threading.Semaphore(0)
        self._stands = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let it do its next operation; raises what ends its process."""
        self._go_on.release()
        self._stands.acquire()
        if self._failure is not None:
            raise self._failure

    def is_running(self) -> bool:
        """Whether it is this job's thread that asks."""
        return threading.current_thread() is self._thread

    def pause(self) -> None:
        """Stand still until the next `step`."""
        self._stands.release()
        self._go_on.acquire()

    def bury(self) -> None:
        """End the thread: its process has died, and its next operation is none any more."""
        while not self.ended:
            self._go_on.release()
            self._stands.acquire()
        self._thread.join()

    def _run(self) -> None:
        self._go_on.acquire()
        try:
            if not self._door.dead:
                self.result = outcome(self._job)
        except BaseException as error:  # noqa: BLE001 - whoever has it go on gets it
            self._failure = error
        self.ended = True
        self._stands.release()
