"""Every way to sync in the background completes, reports errors, and has a fallback."""

import errno
import os
import select
from collections.abc import Callable
from pathlib import Path

import pytest
from support.logs import ForgetfulFiles

from aerobee.storage.files import Files
from aerobee.storage.sync_backends import (
    AioBackend,
    DirectBackend,
    Signal,
    SyncBackend,
    ThreadBackend,
    best_backend,
)
from aerobee.storage.worker import Completion

MAKERS: dict[str, Callable[[], SyncBackend]] = {
    "aio": AioBackend,
    "thread": lambda: ThreadBackend(Files()),
    "thread with a pipe": lambda: ThreadBackend(Files(), eventfd=False),
    "direct": lambda: DirectBackend(Files()),
}


def collect(backend: SyncBackend, count: int) -> list[Completion]:
    """Wait for so many completions."""
    results: list[Completion] = []
    while len(results) < count:
        assert select.select([backend.fileno()], [], [], 10)[0], "no completion"
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
        backend.submit(fds[:15], 7)
        backend.submit(fds[15:], 8)
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
    backend.submit([read_end], 3)
    assert collect(backend, 1) == [(3, errno.EINVAL)]
    backend.close()
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize("maker", MAKERS)
def test_other_work_is_done_one_after_the_other(maker: str) -> None:
    """Jobs report their tokens, an OSError its number; closing waits for them."""
    backend = MAKERS[maker]()
    done: list[int] = []

    def fails() -> None:
        raise OSError(errno.ENOSPC, "no space")

    backend.run(lambda: done.append(1), 4)
    backend.run(fails, 5)
    assert collect(backend, 2) == [(4, 0), (5, errno.ENOSPC)]
    backend.run(lambda: done.append(2), 6)
    backend.close()
    assert done == [1, 2]


def test_aio_refuses_what_it_cannot_sync(tmp_path: Path) -> None:
    """A pipe at once; more than the kernel's queue holds as well."""
    backend = AioBackend()
    read_end, write_end = os.pipe()
    with pytest.raises(OSError):
        backend.probe(read_end)
    with pytest.raises(OSError):
        backend.submit([write_end] * 300, 1)
    backend.close()
    os.close(read_end)
    os.close(write_end)


def test_the_best_backend_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AIO where it works, a thread on other systems or file systems, directly in tests."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    backends = [best_backend(Files(), fd)]
    read_end, write_end = os.pipe()
    backends.append(best_backend(Files(), read_end))
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    backends.append(best_backend(Files(), fd))
    backends.append(best_backend(ForgetfulFiles(), fd))
    assert [type(backend) for backend in backends] == [
        AioBackend, ThreadBackend, ThreadBackend, DirectBackend,
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
    assert select.select([signal.fileno()], [], [], 0)[0]
    while select.select([signal.fileno()], [], [], 0)[0]:
        signal.clear()
    signal.close()
