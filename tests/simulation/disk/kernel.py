"""The kernel's asynchronous syncs and the checkpoint thread, in any order that is legal."""

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from aerobee.storage.disk.signals import Signal
from aerobee.storage.disk.worker import Bell as Rung
from aerobee.storage.disk.worker import Completion, Job, outcome
from simulation.disk.door import Door
from simulation.disk.jobs import SteppedJob
from simulation.disk.machine import Died
from simulation.disk.pages import Inode, Picture

JOB_S: Final = (0.0005, 0.05)
STEP_S: Final = (0.0, 0.2)  # between two operations of a job that is interrupted


class Bell(Signal):
    """A signal that may be closed twice: by its owner, and when that has died."""

    _closed = False

    def close(self) -> None:
        """Release it once."""
        if not self._closed:
            self._closed = True
            super().close()


class SimulatedJobs:
    """Does file work as the thread of a Worker does: later, and some jobs step by step."""

    def __init__(self, door: Door, bell: Rung) -> None:
        self._door = door
        self._bell = bell
        self._waiting: list[tuple[Job, int]] = []
        self._results: list[Completion] = []
        self._stepped: SteppedJob | None = None  # the first of those that wait, begun

    def put(self, job: Job, token: int) -> None:
        """Have a job done a little later."""
        self._waiting.append((job, token))
        machine = self._door.machine
        delay_s = machine.dice.uniform(*JOB_S)
        if machine.clock.monotonic() < machine.weather.slow_until_s:
            delay_s += machine.weather.sync_takes_s()
        machine.clock.after(delay_s, self._work)

    def _work(self) -> None:
        if self._door.dead or not self._waiting:
            return
        job, token = self._waiting[0]
        machine = self._door.machine
        if self._stepped is None:
            machine.note(f"job {token}")
            if machine.dice.random() >= machine.interrupted_jobs:
                self._ended(token, outcome(job))
                return
            self._stepped = self._door.job = SteppedJob(job, self._door)
        self._stepped.step()
        if not self._stepped.ended:
            machine.clock.after(machine.dice.uniform(*STEP_S), self._work)
            return
        result, self._stepped, self._door.job = self._stepped.result, None, None
        machine.note(f"job {token} ends")
        self._ended(token, result)

    def _ended(self, token: int, result: int) -> None:
        self._waiting.pop(0)
        self._results.append((token, result))
        self._bell.set()

    def results(self) -> list[Completion]:
        """Return what has ended since the last call."""
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Do what waits."""
        while self._waiting and not self._door.dead:
            self._work()


class SimulatedKernel:
    """See aerobee.storage.disk.aio.Kernel; one for each life of a process."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._machine = door.machine
        self._slots = 0
        self._under_way: dict[int, Callable[[], None]] = {}  # how each sync completes, by number
        self._count = 0
        self._done: list[Completion] = []
        self._bells: list[Bell] = []
        door.aio = self

    def bell(self) -> Bell:
        """Return a fresh bell."""
        self._bells.append(Bell())
        return self._bells[-1]

    def jobs(self, bell: Rung) -> SimulatedJobs:
        """Return a fresh place for other work."""
        return SimulatedJobs(self._door, bell)

    def setup(self, slots: int) -> int:
        """Take note of how many syncs there may be at a time."""
        self._slots = slots
        return 1

    def submit(self, context: int, syncs: Sequence[tuple[int, int]], bell: Rung) -> int:
        """Begin some of the syncs; each writes what is dirty at this moment."""
        if self._door.dead:
            raise Died
        room = self._slots - len(self._under_way)
        if room <= 0:
            raise OSError(errno.EAGAIN, "all slots are taken")
        count = min(len(syncs), room)
        if count > 1 and self._machine.dice.random() < 0.1:
            count = self._machine.dice.randint(1, count)
        for fd, token in syncs[:count]:
            inode, name = self._door.inode(fd), self._door.name(fd)
            self._door.machine.note(f"submit {token} {name}")
            self._begin(token, inode, name, bell)
        return count

    def _begin(self, token: int, inode: Inode, name: str, bell: Rung) -> None:
        self._count += 1
        number, picture = self._count, inode.picture()
        delay_s = self._machine.weather.sync_takes_s(name)
        self._under_way[number] = complete = partial(
            self._complete, number, token, inode, name, picture, bell
        )
        self._machine.clock.after(delay_s, complete)

    def _complete(
        self, number: int, token: int, inode: Inode, name: str, picture: Picture, bell: Rung
    ) -> None:
        if self._under_way.pop(number, None) is None:
            return
        code = self._machine.weather.error("sync", name)
        if inode.failed and not code:
            inode.failed, code = False, errno.EIO
        self._machine.note(f"complete {token} {name} {os.strerror(code) if code else 'ok'}")
        if code:
            inode.fail(picture, self._machine.dice)
        else:
            self._door.synced(inode, picture)
        if code and self._machine.weather.unheard:
            self._machine.fuse = 0  # the process dies before it has heard
        elif not self._door.dead:
            self._done.append((token, code))
            bell.set()

    def events(self, context: int) -> list[Completion]:
        """Return what has completed since the last call."""
        done, self._done = self._done, []
        return done

    def destroy(self, context: int) -> None:
        """Wait for what is under way, unless its process has died."""
        while self._under_way and not self._door.dead and self._machine.clock.step():
            pass

    def bury(self) -> None:
        """Release what a dead process had; its syncs end before its lock does (exit_aio)."""
        if self._door.job is not None:
            self._door.job.bury()
        while self._under_way:
            next(iter(self._under_way.values()))()
        for bell in self._bells:
            bell.close()
