"""The helper process that prepares log space, and gives up memory: a program run by its path.

Its argument is the process id of who gives the orders. It imports the standard library only and
starts in milliseconds. It reads orders from its standard input, one a line: `how at until path`,
and answers on its standard output, one line a step: `ok until path`, `full errno path` when the
disk refuses, or `cannot errno path` where the file system does not know how. It ends when its input
ends, and before a step that nobody waits for any longer: what a broker that was killed has ordered
may hold messages of the next one. The loop that serves must not wait for the disk, and a thread of
it would contend for its memory map.

`allocate` gives disk space that reads as zeros though nobody has written it. `zero` and `sync`
write zeros, `sync` brings them to the disk, too: writing there later changes no metadata. `trickle`
is `sync` for what has time: a piece is on the disk before the next is written, so syncs that
messages wait for find few zeros to write before theirs, and a shared CPU comes free often. `drop`
takes a part of a file that the disk has out of memory, in pieces, with pauses, and while there is
nothing else to do, since each piece takes a CPU; `dropped until path` is its one answer.
"""

import errno
import os
import select
import sys
import time
from contextlib import suppress

ZERO_STEP_BYTES = 64 * 1024  # larger writes make large folios, which later small stores pay for
PIECE_BYTES = 256 * 1024  # of zeros that a sync of somebody else's may have to write
REPORT_STEP_BYTES = 4 * 1024 * 1024
TRICKLE_STEP_BYTES = 4 * REPORT_STEP_BYTES  # each ends with a sync, which commits the journal
DROP_STEP_BYTES = 1024 * 1024
DROP_PAUSE_S = 0.0005
KEEP_SIZE = 1
PUNCH_HOLE = 2
WRITE_AND_WAIT = 7  # sync_file_range: wait, write, wait

_parent = os.getppid()  # which may have changed before we got here: the program is told
_ZEROS = bytes(ZERO_STEP_BYTES)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class CannotAllocateError(OSError):
    """Space without zeros is not to be had here."""


def end_with_parent() -> None:
    """End here where the process that gives the orders has ended."""
    if os.getppid() != _parent:
        raise SystemExit


def fallocate(fd: int, mode: int, at: int, count: int) -> None:
    """Call the kernel's fallocate: the C library's posix_fallocate writes where that is missing."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        raise CannotAllocateError(errno.ENOSYS, "no fallocate")
    places = ctypes.c_int64(at), ctypes.c_int64(count)
    while call(ctypes.c_int(fd), ctypes.c_int(mode), *places):
        if (code := ctypes.get_errno()) != errno.EINTR:
            kind = CannotAllocateError if code in _NOT_SUPPORTED else OSError
            raise kind(code, os.strerror(code))


def allocate(fd: int, at: int, until: int) -> None:
    """Give a range of the file disk space that reads as zeros, all of it or nothing."""
    try:
        fallocate(fd, 0, at, until - at)
    except CannotAllocateError:
        raise
    except OSError:  # what came before the end of the room is in nobody's way any longer
        end_with_parent()
        with suppress(OSError):
            fallocate(fd, PUNCH_HOLE | KEEP_SIZE, at, until - at)
        raise


def push(fd: int, at: int, count: int) -> None:
    """Write a range's dirty pages to the disk and wait, where the system has a call for that.

    Of metadata and the disk's own cache it says nothing: a sync has to follow. What fails here has
    to be told, for that sync may not tell it again.
    """
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if call is None:
        return
    places = ctypes.c_int64(at), ctypes.c_int64(count)
    while call(ctypes.c_int(fd), *places, ctypes.c_uint(WRITE_AND_WAIT)):
        if (code := ctypes.get_errno()) in _NOT_SUPPORTED:
            return
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def zero(fd: int, at: int, until: int, *, trickle: bool = False) -> None:
    """Give a range of the file disk space and zeros; OSError says that there is none."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, at, until - at)
        except OSError as error:  # a file system that cannot: the writes below allocate
            if error.errno not in _NOT_SUPPORTED:
                raise
    pushed_at = at
    while at < until:
        end_with_parent()
        at += os.pwrite(fd, _ZEROS[: until - at], at)
        if trickle and (at - pushed_at >= PIECE_BYTES or at == until):
            push(fd, pushed_at, at - pushed_at)
            pushed_at = at


def sync_name(path: bytes) -> None:
    """Make the name of a file durable."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY)  # noqa: PTH120 - pathlib takes 10 ms
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def prepare(path: bytes, at: int, until: int, how: bytes) -> None:
    """Carry out one order and report every step of it."""
    fd = os.open(path, os.O_RDWR)
    try:
        fresh = at == 0
        trickle = how == b"trickle"
        step_bytes = TRICKLE_STEP_BYTES if trickle else REPORT_STEP_BYTES
        while at < until:
            if how == b"allocate":
                step = until
                allocate(fd, at, step)
            else:
                step = min(until, at + step_bytes)
                zero(fd, at, step, trickle=trickle)
            if trickle or how == b"sync" or fresh:
                os.fsync(fd)
            if fresh:
                sync_name(path)
                fresh = False
            at = step
            say(b"ok %d %s" % (at, path))
    finally:
        os.close(fd)


def say(line: bytes) -> None:
    """Write one line at once."""
    os.write(1, line + b"\n")


def drop(path: bytes, at: int, until: int) -> int:
    """Take a piece of a file out of memory, as far as it is on the disk; return its end."""
    if not hasattr(os, "posix_fadvise"):  # macOS: the system forgets by itself
        return until
    end = min(until, at + DROP_STEP_BYTES)
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # removed meanwhile
        return until
    try:
        os.posix_fadvise(fd, at, end - at, os.POSIX_FADV_DONTNEED)
    except OSError:
        return until
    finally:
        os.close(fd)
    return end


def serve(line: bytes) -> tuple[bytes, int, int] | None:
    """Carry out an order; return what is to be dropped instead, which has time."""
    how, first, last, path = line.split(b" ", 3)
    at, until = int(first), int(last)
    if how == b"drop":
        return path, at, until
    try:
        prepare(path, at, until, how)
    except CannotAllocateError as error:
        say(b"cannot %d %s" % (error.errno or errno.ENOSYS, path))
    except OSError as error:
        say(b"full %d %s" % (error.errno or errno.EIO, path))
    return None


def main() -> None:
    """Serve orders until the input ends; what is to be dropped waits for all others."""
    doomed: tuple[bytes, int, int] | None = None  # one at a time is asked for
    rest = b""
    while True:
        if doomed is None or select.select([0], [], [], 0)[0]:
            if not (data := os.read(0, 65536)):
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                doomed = serve(line) or doomed
            continue
        path, at, until = doomed
        doomed = path, drop(path, at, until), until
        if doomed[1] >= until:
            doomed = None
            say(b"dropped %d %s" % (until, path))
        else:
            time.sleep(DROP_PAUSE_S)


if __name__ == "__main__":
    _parent = int(sys.argv[1])
    with suppress(KeyboardInterrupt, BrokenPipeError):
        main()
