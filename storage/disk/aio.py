"""The kernel's asynchronous I/O, as few calls as AioBackend needs, behind a seam for tests."""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from typing import Final, Protocol

from aerobee.storage.disk.signals import Signal
from aerobee.storage.disk.worker import Bell, Completion, Job, Worker


class Jobs(Protocol):
    """A place where jobs are done one after the other, in the order of `put`; see Worker."""

    def put(self, job: Job, token: int) -> None:
        """Have a job done; its token comes back with the outcome."""

    def results(self) -> list[Completion]:
        """Return what has ended since the last call."""

    def close(self) -> None:
        """Wait for the jobs that were put."""


class Kernel(Protocol):
    """All that AioBackend stands on: the seam for a simulated kernel, disk and thread.

    A door to files (`Files.kernel`) may bring its own; then the production code of AioBackend and
    Flusher runs above it. `submit` and `events` never wait. After an accepted sync its token comes
    out of `events` exactly once, in any order, and the bell is rung for it; what `destroy` finds
    under way it completes, or fails, and tells nobody.
    """

    def bell(self) -> Bell:
        """Return a fresh bell: one for each backend."""

    def jobs(self, bell: Bell) -> Jobs:
        """Return a fresh place for other file work, which rings the bell after each job."""

    def setup(self, slots: int) -> int:
        """Return a context for so many syncs at a time; OSError where there is none."""

    def submit(self, context: int, syncs: Sequence[tuple[int, int]], bell: Bell) -> int:
        """Begin to sync the first few of (file number, token); return how many, 1 at least.

        OSError is of the first of them, and nothing has begun: EAGAIN where the kernel has no room
        just now, anything else is that file's own fault.
        """

    def events(self, context: int) -> list[Completion]:
        """Return what has completed since the last call."""

    def destroy(self, context: int) -> None:
        """Wait for what is under way and release the context."""


_SYSCALLS: Final = {  # io_setup, io_destroy, io_submit, io_getevents
    "x86_64": (206, 207, 209, 208),
    "aarch64": (0, 1, 2, 4),
}
_IOCB: Final = struct.Struct("<QIIHhIQQqQII")
_FDSYNC: Final = 3
_SIGNAL_EVENTFD: Final = 1
_EVENT: Final = struct.Struct("<QQqq")
_EVENTS_MAX: Final = 256


class LinuxKernel:
    """Linux AIO: the kernel syncs and rings an eventfd. OSError on other systems."""

    def __init__(self) -> None:
        if platform.system() != "Linux" or platform.machine() not in _SYSCALLS:
            raise OSError(errno.ENOSYS, "no AIO on this system")
        if struct.calcsize("P") != 8:
            raise OSError(errno.ENOSYS, "no AIO for 32-bit processes here")
        self._numbers = _SYSCALLS[platform.machine()]
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._events = ctypes.create_string_buffer(_EVENT.size * _EVENTS_MAX)
        self._zero_wait = struct.pack("=qq", 0, 0)

    def bell(self) -> Signal:
        """Return an eventfd, which is what AIO can ring."""
        return Signal(eventfd=True)

    def jobs(self, bell: Bell) -> Worker:
        """Return a thread."""
        return Worker(bell)

    def setup(self, slots: int) -> int:
        """io_setup: EAGAIN where fs.aio-max-nr is used up."""
        context = ctypes.c_ulong(0)
        self._call(self._numbers[0], ctypes.c_long(slots), ctypes.byref(context))
        return context.value

    def submit(self, context: int, syncs: Sequence[tuple[int, int]], bell: Bell) -> int:
        """io_submit: the kernel copies the blocks before it returns."""
        count = len(syncs)
        block = ctypes.create_string_buffer(_IOCB.size * count)
        pointers = (ctypes.c_void_p * count)()
        start, rung = ctypes.addressof(block), bell.fileno()
        for index, (fd, token) in enumerate(syncs):
            _IOCB.pack_into(
                block, index * _IOCB.size,
                token, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _SIGNAL_EVENTFD, rung,
            )  # fmt: skip
            pointers[index] = start + index * _IOCB.size
        accepted = self._call(
            self._numbers[2], ctypes.c_ulong(context), ctypes.c_long(count), pointers
        )
        if not accepted:
            raise OSError(errno.EAGAIN, "the kernel has begun nothing")
        return accepted

    def events(self, context: int) -> list[Completion]:
        """io_getevents without waiting."""
        results: list[Completion] = []
        count = _EVENTS_MAX
        while count == _EVENTS_MAX:
            count = self._call(
                self._numbers[3], ctypes.c_ulong(context), ctypes.c_long(0),
                ctypes.c_long(_EVENTS_MAX), self._events, self._zero_wait,
            )  # fmt: skip
            for index in range(count):
                token, _, result, _ = _EVENT.unpack_from(self._events, index * _EVENT.size)
                results.append((token, -result if result < 0 else 0))
        return results

    def destroy(self, context: int) -> None:
        """io_destroy."""
        self._call(self._numbers[1], ctypes.c_ulong(context))

    def _call(self, number: int, *arguments: object) -> int:
        result = int(self._syscall(ctypes.c_long(number), *arguments))
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result
