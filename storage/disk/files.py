"""The only door to the operating system's files; a test puts its own door in its place.

Every call takes paths or file numbers and raises OSError as the system does. Linux-only calls have
a fallback here, so that nobody else asks on which system he runs.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import resource
import select
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aerobee.storage.disk.aio import Kernel, LinuxKernel
from aerobee.storage.disk.maps import WITHOUT_NUMBERS, map_file

ZERO_STEP_BYTES: Final = 64 * 1024
"""Larger writes of zeros make large folios, which later small stores and syncs pay for."""

WRITE_BYTES_MAX: Final = 256 * 1024
"""Of one call: of 2 MiB and more Linux takes folios so large that a virtual machine has given their
memory back to its host, and to touch it again takes twelve times as long as the copy.
"""

FALLOC_FL_KEEP_SIZE: Final = 1
FALLOC_FL_PUNCH_HOLE: Final = 2
AT_FDCWD: Final = -100
RENAME_EXCHANGE: Final = 2
STATX_MNT_ID: Final = 0x1000  # since Linux 5.8
STATX_MNT_ID_UNIQUE: Final = 0x4000  # since 6.8
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
MAPS_MAX: Final = Path("/proc/sys/vm/max_map_count")

_TELL_FAILURES: Final = frozenset({0xEF53, 0x58465342, 0x01021994})  # ext4, XFS, tmpfs
_ZEROS: Final = bytes(ZERO_STEP_BYTES)
_FLOCK: Final = struct.Struct("@hhqqi4x")  # Linux' struct flock: kind, whence, start, bytes, pid
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Files:
    """The real file system."""

    queue_maps_max: int = 1 << 30  # so many files of queues are mapped at a time
    log_files_max: int = 1 << 30  # so many files of the log have a number at a time

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open a file and return its number; it is not inherited by child processes."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, fd: int) -> None:
        """Close a file number."""
        os.close(fd)

    def size(self, path: Path | str) -> int:
        """Return the length of a file in bytes."""
        return os.stat(path).st_size  # noqa: PTH116 - a Path takes as long as the call

    def modified(self, path: Path) -> float:
        """Return when a file was last written, in seconds since 1970."""
        return path.stat().st_mtime

    def resize(self, fd: int, size: int) -> None:
        """Set a file's length; what is added is a hole: it reads as zeros and has no disk space."""
        os.ftruncate(fd, size)

    def prepare(self, fd: int, at: int, count: int) -> None:
        """Give `count` bytes from `at` disk space and fill them with zeros."""
        give_blocks(fd, at, count)
        for begin in range(at, at + count, ZERO_STEP_BYTES):
            self.write(fd, _ZEROS[: at + count - begin], begin)

    def allocate(self, fd: int, at: int, count: int) -> bool:
        """Give a range disk space that reads as zeros without writing it; False: not possible."""
        return fallocate(fd, 0, at, count)

    def clear(self, fd: int, at: int, count: int) -> None:
        """Turn a range into zeros, giving its disk space back where the system can."""
        end = at + count
        if (found := self.next_data(fd, at)) is None or found >= end or punch_hole(fd, at, count):
            return
        while (found := self.next_data(fd, at)) is not None and found < end:
            at = found
            data = self.read(fd, min(ZERO_STEP_BYTES, end - at), at)
            if data.count(0) != len(data):
                self.write(fd, bytes(len(data)), at)
            at += len(data)

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write all of `data` at a place in the file."""
        done = os.pwrite(fd, data, at) if len(data) <= WRITE_BYTES_MAX else 0
        while done < len(data):  # of larger ones, or a signal or a quota cut it short
            piece = memoryview(data)[done : done + WRITE_BYTES_MAX]
            done += os.pwrite(fd, piece, at + done)

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Read up to `count` bytes from a place; shorter only at the end of the file."""
        data = os.pread(fd, count, at)
        while len(data) < count and (more := os.pread(fd, count - len(data), at + len(data))):
            data += more
        return data

    def next_data(self, fd: int, at: int) -> int | None:
        """Return where the first bytes from `at` on are that are no hole, None if none are."""
        if not hasattr(os, "SEEK_DATA"):
            return at
        try:
            return os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno in _NOT_SUPPORTED:
                return at
            raise

    def boot_id(self) -> bytes:
        """Return 36 characters that name this boot of the machine, b"" where nothing does."""
        try:
            return BOOT_ID.read_bytes().strip()[:36]
        except OSError:
            return b""

    def mount(self, path: Path) -> tuple[int, int]:
        """Return numbers of the device and of the mount of a path; 0 for what nobody can tell.

        A file system that was unmounted and mounted again has another mount number for certain
        since Linux 6.8; before, a number that is free again may be given once more.
        """
        return path.stat().st_dev, mount_number(path)

    def maps_max(self) -> int:
        """Return how many maps a process may have, 65,530 where that cannot be told."""
        try:
            return int(MAPS_MAX.read_bytes())
        except (OSError, ValueError):
            return 65_530

    def limit(self, files_max: int, spare: int) -> None:
        """Share out what there is: 7/8 of the maps to queues, 1/8 of the file numbers to the log.

        Where maps hold file numbers, `spare` of the `files_max` numbers are left to connections.
        """
        self.log_files_max = max(8, files_max // 8)
        self.queue_maps_max = self.maps_max() * 7 // 8
        if not WITHOUT_NUMBERS:
            self.queue_maps_max = min(self.queue_maps_max, files_max - spare)

    def map(self, fd: int, size: int, *, write: bool) -> mmap.mmap:
        """Map a file; touch only pages that have disk space, a hole can end the process."""
        return map_file(fd, size, write=write)

    def kernel(self) -> Kernel | None:
        """Return what syncs in the background, None to have each sync done by `sync`, at once.

        A test's door has its own `sync` and gets None, so that every sync passes it; to have the
        production's AioBackend above an invented kernel it overrides this, too. OSError: there is
        no AIO here, and a thread calls `sync`.
        """
        return LinuxKernel() if type(self) is Files else None

    def sync(self, fd: int) -> None:
        """Return when the file's content is on the disk."""
        sync(fd)

    def sync_file_system(self, fd: int) -> None:
        """Return when all that was written to the file system of a file is on the disk, names too.

        What could not be written since that file was opened, or asked for last, is an error, even
        if it is none of ours. OSError with EOPNOTSUPP where such a failure might not be told.
        """
        if type(self).sync is not Files.sync:  # whose syncs all go through that
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        sync_file_system(fd)

    def drop_cache(self, fd: int, at: int, count: int) -> None:
        """Let go of what memory holds of a synced range, so that the disk is read next."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # an optimisation to the system
                os.posix_fadvise(fd, at, count, os.POSIX_FADV_DONTNEED)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def open_directory(self, path: Path) -> int:
        """Open a directory and return its number."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def replace(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target` in one step."""
        source.replace(target)

    def exchange(self, one: Path, other: Path) -> bool:
        """Let two files have each other's name in one step; False where that is not supported."""
        return exchange_names(one, other)

    def remove(self, path: Path) -> None:
        """Remove a file; that it is gone already is fine."""
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory if it is empty."""
        with contextlib.suppress(FileNotFoundError, OSError):
            path.rmdir()

    def make_directory(self, path: Path) -> None:
        """Create a directory and those above it."""
        path.mkdir(parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory, none if it does not exist."""
        try:
            return sorted(entry.name for entry in path.iterdir())
        except FileNotFoundError:
            return []

    def read_all(self, path: Path, bytes_max: int) -> bytes | None:
        """Return the content of a small file, None if it does not exist."""
        try:
            with path.open("rb") as file:
                return file.read(bytes_max)
        except FileNotFoundError:
            return None

    def disk_used_ratio(self, path: Path) -> float:
        """Return how full the file system of a path is, 0 to 1, as `df` counts for users."""
        stat = os.statvfs(path)
        used = stat.f_blocks - stat.f_bfree
        return used / (used + stat.f_bavail) if used + stat.f_bavail else 1.0

    def disk_bytes(self, path: Path) -> int:
        """Return how much the file system of a path holds, without what is kept for root."""
        stat = os.statvfs(path)
        return (stat.f_blocks - stat.f_bfree + stat.f_bavail) * stat.f_frsize

    def allocated_bytes(self, fd: int) -> int:
        """Return how much disk space a file has, holes not counted."""
        return os.fstat(fd).st_blocks * 512

    def try_lock(self, fd: int) -> bool:
        """Take the advisory lock on the first byte, as Java's `FileChannel.tryLock(0, 1, false)`.

        It is a POSIX record lock: it ends with the process, and also as soon as this process closes
        any other file number of the same file.
        """
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def is_locked(self, fd: int) -> bool:
        """Whether another process has that lock; True where it cannot be told. Reading suffices."""
        if sys.platform != "linux":
            return True
        try:
            found = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except OSError:
            return True
        return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def give_blocks(fd: int, at: int, count: int) -> None:
    """Give a range of a file disk space where the system can; raise ENOSPC where it has none."""
    if not hasattr(os, "posix_fallocate"):  # macOS: the writes that follow allocate
        return
    try:
        os.posix_fallocate(fd, at, count)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise


def punch_hole(fd: int, at: int, count: int) -> bool:
    """Free a range of a file, which then reads as zeros; False where that is not supported."""
    try:
        return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, count)
    except OSError:
        return False


def fallocate(fd: int, mode: int, at: int, count: int) -> bool:
    """Call the kernel's fallocate, False where there is none for this file system.

    Linux has it, Python's os has not, and the C library's own stand-in for it writes.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        return False
    places = ctypes.c_int64(at), ctypes.c_int64(count)
    while call(ctypes.c_int(fd), ctypes.c_int(mode), *places):
        if (error := ctypes.get_errno()) in _NOT_SUPPORTED:
            return False
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return True


def exchange_names(one: Path, other: Path) -> bool:
    """Exchange two names (renameat2); False where the system or the file system cannot."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None:
        return False
    names = [ctypes.c_char_p(os.fsencode(path)) for path in (one, other)]
    here = ctypes.c_int(AT_FDCWD)
    result: int = call(here, names[0], here, names[1], ctypes.c_uint(RENAME_EXCHANGE))
    return result == 0


def mount_number(path: Path) -> int:
    """Return the kernel's number of the mount of a path (statx), 0 where it has none."""
    call = getattr(ctypes.CDLL(None), "statx", None)
    if call is None:
        return 0
    for wanted in (STATX_MNT_ID_UNIQUE, STATX_MNT_ID):
        found = ctypes.create_string_buffer(256)
        name = ctypes.c_char_p(os.fsencode(path))
        failed = call(ctypes.c_int(AT_FDCWD), name, ctypes.c_int(0), ctypes.c_uint(wanted), found)
        if not failed and int.from_bytes(found.raw[0:4], sys.byteorder) & wanted:
            return int.from_bytes(found.raw[144:152], sys.byteorder)
    return 0


def sync(fd: int) -> None:
    """Return when a file's content, and what is needed to find it, is on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    elif (
        full := getattr(fcntl, "F_FULLFSYNC", None)
    ) is not None:  # macOS: fsync stops at the drive
        fcntl.fcntl(fd, full)
    else:
        os.fsync(fd)


def sync_file_system(fd: int) -> None:
    """Have the disk take all of a file system (syncfs); EOPNOTSUPP where failures are not told.

    Linux tells of them since 5.8, and not every file system does.
    """
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    told = sys.platform == "linux" and release and (int(release[1]), int(release[2])) >= (5, 8)
    if not told or file_system_kind(fd) not in _TELL_FAILURES:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    if ctypes.CDLL(None, use_errno=True).syncfs(ctypes.c_int(fd)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def file_system_kind(fd: int) -> int:
    """Return the number of a file's kind of file system (statfs.f_type), 0 where it is not told."""
    found = ctypes.create_string_buffer(256)
    call = getattr(ctypes.CDLL(None), "fstatfs", None)
    if call is None or call(ctypes.c_int(fd), found):
        return 0
    return int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)


def raise_open_files_limit(wanted: int) -> int:
    """Raise the soft limit of open files towards `wanted` and return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError):
        return soft
    return target


def wait_readable(fds: Sequence[int], timeout_s: float) -> list[int]:
    """Wait until one of the file numbers is readable; unlike `select` for any number of them."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(max(0, timeout_s) * 1000)]


def memory_bytes() -> int:
    """Return the size of the machine's memory, 4 GiB where it cannot be told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 4 << 30
