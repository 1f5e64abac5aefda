"""The helper process that prepares log space: a program of its own, run by its path.

It imports the standard library only and starts in milliseconds. It reads orders from its standard
input, one a line: `at until sync path`, and answers on its standard output, one line a step:
`ok until path`, or `full errno path` when the disk refuses. It ends when its input ends, so it
never outlives the store. Zeroing happens here because the loop that serves must not wait for the
disk, and a thread of it would contend for its memory map.
"""

import errno
import os
import sys
from contextlib import suppress

ZERO_STEP_BYTES = 64 * 1024  # larger writes make large folios, which later small stores pay for
REPORT_STEP_BYTES = 4 * 1024 * 1024

_ZEROS = bytes(ZERO_STEP_BYTES)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def zero(fd: int, at: int, until: int) -> None:
    """Give a range of the file disk space and zeros; OSError says that there is none."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, at, until - at)
        except OSError as error:  # a file system that cannot: the writes below allocate
            if error.errno not in _NOT_SUPPORTED:
                raise
    while at < until:
        at += os.pwrite(fd, _ZEROS[: until - at], at)


def sync_name(path: bytes) -> None:
    """Make the name of a file durable."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY)  # noqa: PTH120 - pathlib takes 10 ms
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def prepare(path: bytes, at: int, until: int, sync: bool) -> None:
    """Carry out one order and report every step of it."""
    fd = os.open(path, os.O_RDWR)
    try:
        fresh = at == 0
        while at < until:
            step = min(until, at + REPORT_STEP_BYTES)
            zero(fd, at, step)
            if sync or fresh:
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


def main() -> None:
    """Serve orders until the input ends."""
    for line in sys.stdin.buffer:
        at, until, sync, path = line.rstrip(b"\n").split(b" ", 3)
        try:
            prepare(path, int(at), int(until), sync == b"1")
        except OSError as error:
            say(b"full %d %s" % (error.errno or errno.EIO, path))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        main()
