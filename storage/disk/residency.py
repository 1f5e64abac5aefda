"""Which pages of a mapped file are in memory, and how they are copied out without harm.

Between the answer and the copy a page can leave memory. Then the copy waits for the disk; where the
disk answers with an error, or the file has lost its end, the system sends a process that touches
the page SIGBUS, which ends it. So copies are made by the kernel (process_vm_readv, of this process
itself), which says so instead; compiled code has a quicker way (broker/compiled/record_runs.pyx).
"""

import ctypes
import errno
import mmap
from collections.abc import Callable
from typing import Final, TypeAlias

Buffer: TypeAlias = mmap.mmap | memoryview | bytearray | bytes
Resident: TypeAlias = Callable[[Buffer, int, int], int]
"""Takes mapped memory, a byte place and a count; returns how many of these bytes, from the first
on, are in memory. Where the system cannot tell, all are."""

Copied: TypeAlias = Callable[[Buffer, int, int], bytes | None]
"""Takes the same; returns these bytes, None where the disk does not give them."""

PAGE_BYTES: Final = mmap.PAGESIZE
_MADV_DONTNEED: Final = 4
_PAGES_MAX: Final = 1024  # asked for at once


class _PyBuffer(ctypes.Structure):
    """Py_buffer, of which the address is wanted: ctypes itself takes writable memory only."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("rest", ctypes.c_byte * 128),
    )


class _Part(ctypes.Structure):
    """struct iovec: a piece of memory."""

    _fields_ = (("base", ctypes.c_void_p), ("count", ctypes.c_size_t))


_read_memory = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
if _read_memory is not None:
    _part = ctypes.POINTER(_Part)
    _ulong = ctypes.c_ulong
    _read_memory.argtypes = (ctypes.c_int, _part, _ulong, _part, _ulong, _ulong)
    _read_memory.restype = ctypes.c_ssize_t
_own_pid = ctypes.CDLL(None).getpid  # the system's: os.getpid may be somebody's stand-in
_mincore = getattr(ctypes.CDLL(None), "mincore", None)
_madvise = getattr(ctypes.CDLL(None), "madvise", None)
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
if _mincore is not None:
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
if _madvise is not None:
    _madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def resident_bytes(memory: Buffer, at: int, count: int) -> int:
    """Return how many bytes from `at` on are in memory, at most `count`; see Resident."""
    if _mincore is None:
        return count
    held = _PyBuffer()
    _get_buffer(memory, ctypes.byref(held), 0)
    try:
        begin = held.buf + at
        page = begin & -PAGE_BYTES
        end = begin + count
        while page < end:
            pages = min(_PAGES_MAX, -(-(end - page) // PAGE_BYTES))
            states = ctypes.create_string_buffer(pages)
            if _mincore(page, pages * PAGE_BYTES, states):
                return count
            if (first := states.raw.find(b"\0")) >= 0:
                found: int = page + first * PAGE_BYTES - begin
                return max(0, min(count, found))
            page += pages * PAGE_BYTES
        return count
    finally:
        _release_buffer(ctypes.byref(held))


def copied_bytes(memory: Buffer, at: int, count: int) -> bytes | None:
    """Return `count` bytes from `at` on, None where the disk does not give them; see Copied."""
    if _read_memory is None or not count:
        return bytes(memory[at : at + count])
    copy = ctypes.create_string_buffer(count)
    held = _PyBuffer()
    _get_buffer(memory, ctypes.byref(held), 0)
    try:
        if at < 0 or at + count > held.len:
            raise ValueError("outside of the memory")
        to, part = _Part(ctypes.addressof(copy), count), _Part(held.buf + at, count)
        done = _read_memory(_own_pid(), ctypes.byref(to), 1, ctypes.byref(part), 1, 0)
    finally:
        _release_buffer(ctypes.byref(held))
    if done < 0 and ctypes.get_errno() != errno.EFAULT:  # a sandbox without it, say
        return bytes(memory[at : at + count])
    return copy.raw if done == count else None


def unmap_pages(memory: Buffer, at: int, count: int) -> None:
    """Take pages of a file out of a map of it, so that the kernel may drop them; `at` is a page's.

    Who looks there finds them again, perhaps on the disk. Other threads go on meanwhile.
    """
    if _madvise is None or at % PAGE_BYTES:
        return
    held = _PyBuffer()
    _get_buffer(memory, ctypes.byref(held), 0)
    try:
        _madvise(held.buf + at, min(count, held.len - at), _MADV_DONTNEED)
    finally:
        _release_buffer(ctypes.byref(held))


def everything_is(memory: Buffer, at: int, count: int) -> int:
    """Take all bytes for resident: for readers that may wait for the disk."""
    return count
