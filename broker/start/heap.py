"""What the C library does with memory that a turn of the loop has given back."""

import ctypes
from typing import Final

KEPT_BYTES: Final = 16 << 20  # of free memory at the heap's end: turns with the largest bodies
ALONE_BYTES: Final = 8 << 20  # what is as large comes from the system, and goes back at once

_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Have memory of reads, records and replies stay for the next turn; whether it does.

    By itself glibc gives free memory at the end of its heap back to the system from 128 KiB on, and
    turns that read as much find each page gone, and pay its fault anew: up to one for each message,
    and 2,700 for one of 4 MiB.
    Nothing without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = (_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, ALONE_BYTES)
    return sum(int(mallopt(name, value)) for name, value in wanted) == len(wanted)
