"""Ways to sync files without stopping the loop: the kernel's AIO, a thread, or here and now."""

import ctypes
import errno
import logging
import os
import platform
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from aerobee.storage.files import Files, wait_readable
from aerobee.storage.worker import Completion, Job, Worker, outcome

log = logging.getLogger(__name__)


class SyncBackend(Protocol):
    """Syncs files in the background; completions come in any order."""

    def fileno(self) -> int:
        """Return a file number that is readable while completions wait."""

    def submit(self, fds: Sequence[int], token: int) -> None:
        """Begin to sync each file; `token` comes back once per file. OSError: nothing has begun."""

    def run(self, job: Job, token: int) -> None:
        """Do other file work in the background, one job at a time; `token` comes back once."""

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call, without waiting."""

    def close(self) -> None:
        """Wait for what is under way and release everything."""


class Signal:
    """A file number that turns readable: an eventfd, or a pipe where there is none."""

    def __init__(self, *, eventfd: bool = hasattr(os, "eventfd")) -> None:
        if eventfd:
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        self.is_eventfd = eventfd

    def fileno(self) -> int:
        """Return the number to watch."""
        return self._read

    def set(self) -> None:
        """Make it readable."""
        with suppress(BlockingIOError):  # a full pipe is readable enough
            os.write(self._write, struct.pack("=Q", 1))

    def clear(self) -> None:
        """Make it unreadable."""
        with suppress(BlockingIOError):
            os.read(self._read, 8 if self.is_eventfd else 65536)

    def close(self) -> None:
        """Release it."""
        os.close(self._read)
        if self._write != self._read:
            os.close(self._write)


_SYSCALLS: Final = {  # io_setup, io_destroy, io_submit, io_getevents
    "x86_64": (206, 207, 209, 208),
    "aarch64": (0, 1, 2, 4),
}
_IOCB: Final = struct.Struct("<QIIHhIQQqQII")
_FDSYNC: Final = 3
_SIGNAL_EVENTFD: Final = 1
_EVENT: Final = struct.Struct("<QQqq")
_EVENTS_MAX: Final = 256


class AioBackend:
    """Linux AIO: the kernel syncs and signals an eventfd; no thread that would want the GIL.

    Other jobs, one a second, do have a thread.
    """

    def __init__(self) -> None:
        if platform.system() != "Linux" or platform.machine() not in _SYSCALLS:
            raise OSError(errno.ENOSYS, "no AIO on this system")
        if struct.calcsize("P") != 8:
            raise OSError(errno.ENOSYS, "no AIO for 32-bit processes here")
        self._numbers = _SYSCALLS[platform.machine()]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._call(self._numbers[0], ctypes.c_long(_EVENTS_MAX), ctypes.byref(self._context))
        self._signal = Signal(eventfd=True)
        self._events = ctypes.create_string_buffer(_EVENT.size * _EVENTS_MAX)
        self._zero_wait = struct.pack("=qq", 0, 0)
        self._under_way = 0
        self._worker = Worker(self._signal)

    def probe(self, fd: int) -> None:
        """Sync one file and wait for it; OSError where kernel or file system cannot."""
        self.submit([fd], 0)
        if not wait_readable([self.fileno()], 5):
            raise OSError(errno.ETIMEDOUT, "AIO does not complete")
        for _, error in self.completed():
            if error:
                raise OSError(error, os.strerror(error))

    def _call(self, number: int, *arguments: object) -> int:
        result = int(self._syscall(ctypes.c_long(number), *arguments))
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def fileno(self) -> int:
        """Return the eventfd."""
        return self._signal.fileno()

    def submit(self, fds: Sequence[int], token: int) -> None:
        """Begin to sync each file, in groups as large as the kernel's queue takes."""
        if self._under_way + len(fds) > _EVENTS_MAX:
            raise OSError(errno.EAGAIN, "too many syncs under way")
        count = len(fds)
        block = ctypes.create_string_buffer(_IOCB.size * count)
        pointers = (ctypes.c_void_p * count)()
        start = ctypes.addressof(block)
        signal = self._signal.fileno()
        for index, fd in enumerate(fds):
            _IOCB.pack_into(
                block, index * _IOCB.size,
                token, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _SIGNAL_EVENTFD, signal,
            )  # fmt: skip
            pointers[index] = start + index * _IOCB.size
        done = 0
        while done < count:  # the kernel copies the blocks before it returns
            at = ctypes.byref(pointers, done * ctypes.sizeof(ctypes.c_void_p))
            accepted = self._call(self._numbers[2], self._context, ctypes.c_long(count - done), at)
            done += accepted
            self._under_way += accepted

    def run(self, job: Job, token: int) -> None:
        """Give the job to a thread."""
        self._worker.put(job, token)

    def completed(self) -> list[Completion]:
        """Return what has completed since the last call."""
        self._signal.clear()
        results = self._worker.results()
        while self._under_way:
            count = self._call(
                self._numbers[3], self._context, ctypes.c_long(0), ctypes.c_long(_EVENTS_MAX),
                self._events, self._zero_wait,
            )  # fmt: skip
            if not count:
                break
            self._under_way -= count
            for index in range(count):
                token, _, result, _ = _EVENT.unpack_from(self._events, index * _EVENT.size)
                results.append((token, -result if result < 0 else 0))
        return results

    def close(self) -> None:
        """Destroy the context, which waits for what is under way."""
        self._worker.close()
        self._call(self._numbers[1], self._context)
        self._signal.close()


class ThreadBackend:
    """One thread that syncs file after file, for systems without AIO."""

    def __init__(self, files: Files, *, eventfd: bool = hasattr(os, "eventfd")) -> None:
        self._files = files
        self._signal = Signal(eventfd=eventfd)
        self._worker = Worker(self._signal)

    def fileno(self) -> int:
        """Return the number that turns readable on completions."""
        return self._signal.fileno()

    def submit(self, fds: Sequence[int], token: int) -> None:
        """Queue the files."""
        for fd in fds:
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

    def submit(self, fds: Sequence[int], token: int) -> None:
        """Sync each file now; its outcome waits for `completed`."""
        for fd in fds:
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
    """Return AIO if it works on the file system of `probe_fd`, a thread otherwise."""
    if type(files) is not Files:  # a door of a test's own: everything has to pass it
        return DirectBackend(files)
    try:
        backend = AioBackend()
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
