"""Every way to sync in the background completes, reports errors, and has a fallback."""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles
from support.waiting import readable

from aerobee.storage.disk.aio import Kernel, LinuxKernel
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.signals import Signal
from aerobee.storage.disk.worker import Bell, Completion, Worker
from aerobee.storage.upkeep.backends import (
    AioBackend,
    DirectBackend,
    SyncBackend,
    ThreadBackend,
    best_backend,
)

MAKERS: dict[str, Callable[[], SyncBackend]] = {
    "aio": lambda: AioBackend(Files(), LinuxKernel()),
    "thread": lambda: ThreadBackend(Files()),
    "thread with a pipe": lambda: ThreadBackend(Files(), eventfd=False),
    "direct": lambda: DirectBackend(Files()),
}


def collect(backend: SyncBackend, count: int) -> list[Completion]:
    """Wait for so many completions."""
    results: list[Completion] = []
    while len(results) < count:
        assert readable(backend.fileno(), 10), "no completion"
        results += backend.completed()
    return results


@pytest.mark.parametrize("maker", MAKERS)
def test_each_file_completes_with_its_token(maker: str, tmp_path: Path) -> None:
    """Several files under two tokens, more than once."""
    if maker == "aio" and os.uname().sysname != "Linux":
        pytest.skip("AIO is Linux's")
    backend = MAKERS[maker]()
    fds = [os.open(tmp_path / str(n), os.O_RDWR | os.O_CREAT) for n in range(20)]
    for _ in range(3):
        for fd in fds:
            os.write(fd, b"data")
        backend.submit([(fd, 7) for fd in fds[:15]])
        backend.submit([(fd, 8) for fd in fds[15:]], log=True)
        assert sorted(collect(backend, 20)) == [(7, 0)] * 15 + [(8, 0)] * 5
        assert backend.completed() == []
    backend.close()
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("maker", ["thread", "direct"])
def test_an_error_comes_back_as_its_number(maker: str) -> None:
    """A file number that cannot be synced."""
    backend = MAKERS[maker]()
    read_end, write_end = os.pipe()
    backend.submit([(read_end, 3)])
    assert collect(backend, 1) == [(3, errno.EINVAL)]
    backend.close()
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize("maker", MAKERS)
def test_other_work_is_done_one_after_the_other(maker: str) -> None:
    """Jobs report their tokens, an OSError its number, all else EIO; closing waits for them."""
    backend = MAKERS[maker]()
    done: list[int] = []

    def fails() -> None:
        raise OSError(errno.ENOSPC, "no space")

    def is_wrong() -> None:
        raise MemoryError

    backend.run(lambda: done.append(1), 4)
    backend.run(fails, 5)
    backend.run(is_wrong, 5)
    assert collect(backend, 3) == [(4, 0), (5, errno.ENOSPC), (5, errno.EIO)]
    backend.run(lambda: done.append(2), 6)
    backend.close()
    assert done == [1, 2]


def test_work_is_done_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of threads a job takes the loop's time, but it is done and told of."""

    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    backend = ThreadBackend(Files())
    backend.run(lambda: None, 6)
    assert backend.completed() == [(6, 0)]
    backend.close()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="AIO is Linux's")
def test_aio_tells_of_what_it_cannot_sync() -> None:
    """A pipe is no file: its completion says so, and so does the probe."""
    backend = AioBackend(Files(), LinuxKernel())
    read_end, write_end = os.pipe()
    with pytest.raises(OSError):
        backend.probe(read_end)
    backend.submit([(write_end, 5)])
    assert collect(backend, 1) == [(5, errno.EINVAL)]
    backend.close()
    os.close(read_end)
    os.close(write_end)


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="AIO is Linux's")
def test_more_files_than_slots_are_synced_later(tmp_path: Path) -> None:
    """A full queue of the kernel's context is no error of the disk."""
    backend = AioBackend(Files(), LinuxKernel())
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    backend.submit([(fd, token) for token in range(1, 1001)])
    assert sorted(collect(backend, 1000)) == [(token, 0) for token in range(1, 1001)]
    backend.close()
    os.close(fd)


class InventedKernel:
    """Takes syncs as it is told, and completes them when it is told."""

    def __init__(self) -> None:
        self.answers: list[int | OSError] = []  # to the next calls of submit; then all is taken
        self.begun: list[tuple[int, int]] = []
        self.done: list[Completion] = []

    def bell(self) -> Signal:
        """A real one."""
        return Signal()

    def jobs(self, bell: Bell) -> Worker:
        """A real one."""
        return Worker(bell)

    def setup(self, slots: int) -> int:
        """One context for all."""
        return slots

    def submit(self, context: int, syncs: Sequence[tuple[int, int]], bell: Bell) -> int:
        """Take as many as was said, or raise what was said."""
        answer = self.answers.pop(0) if self.answers else len(syncs)
        if isinstance(answer, OSError):
            raise answer
        accepted = min(answer, len(syncs))
        self.begun += syncs[:accepted]
        assert len(self.begun) <= context, "more than the context has slots"
        return accepted

    def complete(self, count: int) -> None:
        """Let some of what has begun end well."""
        self.done += [(token, 0) for _, token in self.begun[:count]]
        del self.begun[:count]

    def events(self, context: int) -> list[Completion]:
        """What was completed."""
        done, self.done = self.done, []
        return done

    def destroy(self, context: int) -> None:
        """Nothing is left of it."""


def test_a_submission_that_is_taken_in_part_completes_in_full() -> None:
    """The kernel may take a few, then refuse one: each token comes back once, as it ended."""
    kernel = InventedKernel()
    backend = AioBackend(Files(), kernel)
    kernel.answers = [2, OSError(errno.EBADF, "closed"), 1, OSError(errno.EAGAIN, "no room")]
    backend.submit([(9, token) for token in range(1, 7)])
    assert [token for _, token in kernel.begun] == [1, 2, 4]
    assert backend.completed() == [(3, errno.EBADF)]
    kernel.complete(3)
    assert backend.completed() == [(1, 0), (2, 0), (4, 0)]
    assert [token for _, token in kernel.begun] == [5, 6], "what waited has begun"
    kernel.complete(2)
    assert backend.completed() == [(5, 0), (6, 0)]
    backend.close()


def test_the_log_has_slots_however_many_queues_are_synced() -> None:
    """Its files pass those of queues that wait, and find room where queues do not."""
    kernel = InventedKernel()
    backend = AioBackend(Files(), kernel)
    backend.submit([(9, 1)] * 500)
    backend.submit([(9, 2)] * 10, log=True)
    assert [token for _, token in kernel.begun].count(2) == 10
    backend.submit([(9, 3)] * 40, log=True)
    kernel.complete(100)
    backend.completed()
    assert [token for _, token in kernel.begun].count(3) == 40
    backend.close()


def test_a_kernel_without_room_at_all_leaves_the_sync_to_the_thread(tmp_path: Path) -> None:
    """Nothing is under way whose end would remind us, so the thread does it."""
    kernel = InventedKernel()
    backend = AioBackend(Files(), kernel)
    kernel.answers = [OSError(errno.EAGAIN, "no room")]
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    backend.submit([(fd, 4)])
    assert collect(backend, 1) == [(4, 0)]
    backend.close()
    os.close(fd)


class DoorWithKernel(ForgetfulFiles):
    """A test's door that wants the production's backend above its kernel."""

    def kernel(self) -> Kernel:
        """The machine's own will do."""
        return LinuxKernel()


def test_the_best_backend_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AIO where it works, a thread on other systems or file systems, directly in tests."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    backends = [best_backend(Files(), fd)]
    read_end, write_end = os.pipe()
    backends.append(best_backend(Files(), read_end))
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    backends.append(best_backend(Files(), fd))
    backends.append(best_backend(ForgetfulFiles(), fd))
    monkeypatch.undo()
    backends.append(best_backend(DoorWithKernel(), fd))
    assert [type(backend) for backend in backends] == [
        AioBackend, ThreadBackend, ThreadBackend, DirectBackend, AioBackend,
    ]  # fmt: skip
    for backend in backends:
        backend.close()
    for number in (fd, read_end, write_end):
        os.close(number)


@pytest.mark.parametrize("eventfd", [True, False])
def test_a_signal_is_set_until_cleared(eventfd: bool) -> None:
    """Also when set many times, or cleared when not set."""
    signal = Signal(eventfd=eventfd)
    signal.clear()
    for _ in range(100_000 if not eventfd else 10):
        signal.set()
    assert readable(signal.fileno(), 0)
    while readable(signal.fileno(), 0):
        signal.clear()
    signal.close()
