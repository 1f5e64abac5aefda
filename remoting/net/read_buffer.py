"""Memory that the reads of many connections land in, one after the other, and are served from.

A transport that asks `get_buffer` for memory copies what the kernel has straight into it, and says
so with `buffer_updated` before anything else is read. So one piece of memory is enough for all
connections of a loop, and it stays in the processor's cache. In front of where a read lands is
room for the beginning of a frame that was kept of the read before: whole frames lie in a row then,
and only that beginning has been copied.
"""

from typing import Final

READ_BYTES: Final = 256_000  # at most of one socket at once, as much as uvloop reads by itself
FRONT_BYTES: Final = 64 * 1024  # what begins a frame and is longer is joined elsewhere


class ReadBuffer:
    """The memory; what lies in it counts until the next read of any connection, and no longer."""

    __slots__ = ("_all", "landing")

    def __init__(self) -> None:
        self._all = memoryview(bytearray(FRONT_BYTES + READ_BYTES))
        self.landing = self._all[FRONT_BYTES:]

    def behind(self, begun: bytes, read_bytes: int) -> memoryview:
        """Return what was read, behind the beginning of a frame of FRONT_BYTES at most."""
        begin = FRONT_BYTES - len(begun)
        if begun:
            self._all[begin:FRONT_BYTES] = begun
        return self._all[begin : FRONT_BYTES + read_bytes]
