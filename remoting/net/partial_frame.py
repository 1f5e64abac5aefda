"""The frame that has not arrived completely yet: kept in pieces, joined once.

Nothing here knows a socket. A length word is checked as soon as its four bytes are there, and
memory grows with the bytes that arrived, never with the length that a peer announced.
"""

from typing import Final

from aerobee.remoting.frame import LENGTH_BYTES, check_length

_SMALL_BYTES: Final = 4096  # pieces below it share one buffer, or a dripping peer costs 50 B a byte
_SHARED_BYTES: Final = 65_536


class PartialFrame:
    """The beginning of one frame, waiting for the rest.

    `held_bytes` is 0 when the stream stands at a frame boundary; `wanted_bytes` is what the frame
    takes, its length word included, or 4 while that word itself is incomplete.
    """

    __slots__ = ("_frame_bytes_max", "_pieces", "held_bytes", "wanted_bytes")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pieces: list[bytes | bytearray] = []
        self.held_bytes = 0
        self.wanted_bytes = 0

    def keep(self, tail: bytes) -> None:
        """Remember `tail`, which starts at a frame boundary and holds no complete frame.

        Raises ProtocolError when its length word is not acceptable.
        """
        assert not self.held_bytes, "one frame at a time"
        self.wanted_bytes = LENGTH_BYTES
        if len(tail) >= LENGTH_BYTES:
            self.wanted_bytes += check_length(tail, 0, self._frame_bytes_max)
        self._pieces.append(tail)
        self.held_bytes = len(tail)

    def gather(self, data: bytes) -> bytes:
        """Add what arrived; return all bytes from the frame's start once it may be complete.

        Returns b"" while the frame surely is not. After a non-empty return nothing is held.
        """
        self.held_bytes += len(data)
        if self.held_bytes >= self.wanted_bytes == LENGTH_BYTES:
            self._learn_length(data)
        if self.held_bytes >= self.wanted_bytes:
            self._pieces.append(data)
            whole = b"".join(self._pieces)
            self.clear()
            return whole
        last = self._pieces[-1]
        if len(data) >= _SMALL_BYTES:
            self._pieces.append(data)
        elif type(last) is bytearray and len(last) < _SHARED_BYTES:
            last += data
        else:
            self._pieces.append(bytearray(data))
        return b""

    def take(self) -> bytes:
        """Return all that is held, and hold nothing any more."""
        begun = b"".join(self._pieces)
        self.clear()
        return begun

    def _learn_length(self, data: bytes) -> None:
        """Want the whole frame once its length word is there, unless no frame can be so long."""
        word = b"".join((*self._pieces, data[:LENGTH_BYTES]))[:LENGTH_BYTES]
        size = int.from_bytes(word, "big", signed=True)
        if LENGTH_BYTES <= size <= self._frame_bytes_max - LENGTH_BYTES:
            self.wanted_bytes += size  # else all is returned, and whoever scans it finds out

    def clear(self) -> None:
        """Forget everything held."""
        self._pieces = []
        self.held_bytes = 0
        self.wanted_bytes = 0
