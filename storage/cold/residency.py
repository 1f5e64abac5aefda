"""Which pages of a mapped file are in memory."""

import ctypes
import mmap
from collections.abc import Callable
from typing import Final, TypeAlias

Buffer: TypeAlias = mmap.mmap | memoryview | bytes
Resident: TypeAlias = Callable[[Buffer, int, int], int]
"""Takes mapped memory, a byte place and a count; returns how many of these bytes, from the first
on, are in memory. Where the system cannot tell, all are."""

PAGE_BYTES: Final = mmap.PAGESIZE
_PAGES_MAX: Final = 1024  # asked for at once


class _PyBuffer(ctypes.Structure):
    """Py_buffer, of which the address is wanted: ctypes itself takes writable memory only."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("rest", ctypes.c_byte * 128),
    )


_mincore = getattr(ctypes.CDLL(None), "mincore", None)
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
if _mincore is not None:
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


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


def everything_is(memory: Buffer, at: int, count: int) -> int:
    """Take all bytes for resident: for readers that may wait for the disk."""
    return count
