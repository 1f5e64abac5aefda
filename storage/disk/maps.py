"""Maps of files that hold no file number: Python's own keep one each, a duplicate, until 3.13.

An anonymous map is made, and the file's pages are put in its place (mmap with MAP_FIXED). So a
process has as many as vm.max_map_count allows, whatever its limit of open files.
"""

import ctypes
import mmap
import os
import platform
from typing import Final

_MAP_SHARED: Final = 1
_MAP_PRIVATE: Final = 2
_MAP_FIXED: Final = 0x10
_MAP_ANONYMOUS: Final = 0x20
_MAP_NORESERVE: Final = 0x4000
_PY_BUFFER_BYTES: Final = 256  # more than a Py_buffer has on any system; its first word is `buf`
_FAILED: Final = ctypes.c_void_p(-1).value
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PYTHON: Final = ctypes.PyDLL(None)  # ours: others declare the functions of ctypes.pythonapi anew

WITHOUT_NUMBERS: Final = (
    platform.system() == "Linux"
    and platform.machine() in ("x86_64", "aarch64")
    and platform.python_implementation() == "CPython"
    and ctypes.sizeof(ctypes.c_void_p) == 8
)
"""Whether maps are made so here; elsewhere each holds a file number."""


def map_file(fd: int, size: int, *, write: bool) -> mmap.mmap:
    """Map the first `size` bytes of a file; `fd` may be closed afterwards.

    OSError as the system says it, ValueError for a file that is shorter: touching what lies behind
    its end would end the process.
    """
    if not WITHOUT_NUMBERS:
        return mmap.mmap(fd, size, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)
    if os.fstat(fd).st_size < size:
        raise ValueError(f"the file has fewer than {size} bytes")
    prot = mmap.PROT_READ | mmap.PROT_WRITE if write else mmap.PROT_READ
    made = mmap.mmap(-1, size, flags=_MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE, prot=prot)
    call = _LIBC.mmap
    call.restype = ctypes.c_void_p
    put = call(
        ctypes.c_void_p(_address(made)), ctypes.c_size_t(size), ctypes.c_int(prot),
        ctypes.c_int(_MAP_SHARED | _MAP_FIXED), ctypes.c_int(fd), ctypes.c_long(0),
    )  # fmt: skip
    if put == _FAILED:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return made


def _address(made: mmap.mmap) -> int:
    """Return where a map lies, which stays so for its life."""
    buffer = ctypes.create_string_buffer(_PY_BUFFER_BYTES)
    if _PYTHON.PyObject_GetBuffer(ctypes.py_object(made), buffer, 0):
        raise BufferError("a map without memory")
    try:
        return int.from_bytes(buffer.raw[:8], "little")
    finally:
        _PYTHON.PyBuffer_Release(buffer)
