"""How soon the loop gets its CPU back from whoever else works there."""

import ctypes
import platform
from typing import ClassVar, Final

SLICE_NS: Final = 100_000  # the least that the kernel takes

_CALLS: Final = {"x86_64": (315, 314), "aarch64": (275, 274)}  # sched_getattr, sched_setattr
_NUMBER: Final = ctypes.c_long
_NORMAL: Final = 0
_RESET_ON_FORK: Final = 1


class _Attributes(ctypes.Structure):
    """Linux's sched_attr; `runtime` is the length of a slice in nanoseconds."""

    _fields_: ClassVar = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def ask_for_short_slices() -> bool:
    """Let this thread run as soon as it wakes, be it that another has its CPU; whether it will.

    Since Linux 6.12 a thread may ask for short slices of time, and who asks for shorter ones than
    whoever runs goes first when it wakes. Else it waits until the other's slice is over, up to 4 ms
    where the clock ticks 250 times a second. Its share of the CPU stays the same; so nobody's leave
    is needed. Threads and processes that it starts later are as others. Where an administrator has
    chosen another policy, or shorter slices, that stays.
    """
    calls = _CALLS.get(platform.machine())
    if platform.system() != "Linux" or calls is None:
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = _NUMBER
    found, none = _Attributes(), _NUMBER(0)
    size = _NUMBER(ctypes.sizeof(found))
    if syscall(_NUMBER(calls[0]), none, ctypes.byref(found), size, none):
        return False
    if found.policy != _NORMAL or found.runtime <= SLICE_NS:  # 0: a kernel that knows none
        return False
    found.flags |= _RESET_ON_FORK
    found.runtime = SLICE_NS
    return not syscall(_NUMBER(calls[1]), none, ctypes.byref(found), none)
