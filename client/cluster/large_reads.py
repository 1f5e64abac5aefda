"""Reads that land in memory of the client's own, for as long as a broker has much to tell.

A connection is given what was read as bytes: copied out of the loop's memory, and joined with what
was left of the read before. Replies to pulls are taken out of it at once, and need neither.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from aerobee.remoting.frame import LENGTH_BYTES, check_length
from aerobee.remoting.net.reading import Rest

if TYPE_CHECKING:
    from aerobee.client.cluster.channel import Channel

LARGE_READ_BYTES: Final = 64 * 1024
"""So many bytes of replies in one read, and it is worth it."""
MEMORY_BYTES: Final = 512 * 1024  # holds a full reply and the beginning of the next one
ROOM_BYTES_MIN: Final = 128 * 1024  # for a read
SMALL_READ_BYTES: Final = 16 * 1024
SMALL_READS_MAX: Final = 64  # in a row; then the memory is given back


class LargeReads(asyncio.BufferedProtocol):
    """Stands between a transport and its channel, which has everything but the reads from it.

    What is held from `begin` to `end` of its memory is the beginning of a frame. What is no reply
    that has found messages is copied, and served as ever. The memory is written over by the next
    read; it grows with the bytes that arrive, as that of any unfinished frame.
    """

    __slots__ = ("_begin", "_channel", "_end", "_memory", "_small", "_wanted")

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._memory = memoryview(bytearray(MEMORY_BYTES))
        self._begin = self._end = 0
        self._wanted = 0  # bytes of the frame that has begun, as far as it says so
        self._small = 0  # reads in a row

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room for a read, behind what is held."""
        frame = self._channel.reading.frame
        if frame.held_bytes:  # begun when reads were small, or behind frames that had to wait
            begun = frame.take()
            self._make_room(len(begun) + ROOM_BYTES_MIN)
            self._memory[self._end : self._end + len(begun)] = begun
            self._end += len(begun)
        held = self._end - self._begin
        self._make_room(max(min(self._wanted - held, held), ROOM_BYTES_MIN))
        return self._memory[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Have served what was read, behind what was held; hold what is left of it."""
        channel = self._channel
        channel.note_read()
        self._end += nbytes
        try:
            self._serve(channel, nbytes)
        except Exception as error:  # noqa: BLE001 - the channel tells them apart
            channel.failed(error)
        self._small = self._small + 1 if nbytes < SMALL_READ_BYTES else 0
        if self._small >= SMALL_READS_MAX and self._begin == self._end and not channel.closed:
            channel.read_small()

    def pause_writing(self) -> None:
        """Tell the channel."""
        self._channel.pause_writing()

    def resume_writing(self) -> None:
        """Tell the channel."""
        self._channel.resume_writing()

    def eof_received(self) -> bool | None:
        """Tell the channel."""
        return self._channel.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the channel."""
        self._channel.connection_lost(exc)

    def _serve(self, channel: "Channel", read_bytes: int) -> None:
        memory, reading, end = self._memory, channel.reading, self._end
        if reading.backlog:  # what came before has to wait, and so does this
            reading.join(bytes(memory[self._begin : end]))
            self._begin = self._end = 0
            return
        at = channel.hand_found(memory, self._begin, end)
        wanted = self._frame_bytes(at)
        if at < end and wanted <= end - at:  # something else
            rest, what = channel.serve(bytes(memory[at:end]), read_bytes)
            at = end
            if rest and not channel.closed:
                if what is Rest.BEGUN:
                    at -= len(rest)
                    wanted = self._frame_bytes(at)
                else:
                    reading.keep(rest, what)
        self._hold(channel, at, wanted)

    def _frame_bytes(self, at: int) -> int:
        """Return how long the frame there is; raises ProtocolError where it cannot be so."""
        if self._end - at < LENGTH_BYTES:
            return LENGTH_BYTES
        limit = self._channel.limits.frame_bytes_max
        return LENGTH_BYTES + check_length(self._memory, at, limit)

    def _hold(self, channel: "Channel", at: int, wanted: int) -> None:
        """Keep what begins there until there is more of it."""
        if at == self._end or channel.closed:
            self._begin = self._end = self._wanted = 0
            channel.budget.release_partial(channel)
            return
        if at != self._begin or not self._wanted:
            channel.reading.note_begun()
            channel.budget.release_partial(channel)
        self._begin, self._wanted = at, wanted
        channel.budget.hold_partial(channel, self._end - at)

    def _make_room(self, more_bytes: int) -> None:
        """See to it that there is room for so many bytes behind what is held."""
        memory, begin, end = self._memory, self._begin, self._end
        held = end - begin
        is_spare = not held and len(memory) > MEMORY_BYTES
        if end + more_bytes <= len(memory) and not is_spare:
            return
        size = max(MEMORY_BYTES, held + more_bytes)
        if size > len(memory) or is_spare:
            self._memory = memoryview(bytearray(size))
        self._memory[:held] = memory[begin:end]
        self._begin, self._end = 0, held
