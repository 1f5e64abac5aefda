"""What was fetched from one queue and is not yet done, and the offset that may be committed."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from aerobee.client.received import ReceivedMessage


class QueueStatistics(NamedTuple):
    """A look at one process queue; offsets count messages.

    `bytes` are those of unpacked bodies, as they are held; `unreadable` messages came since the
    queue is ours, whose body cannot be unpacked or is damaged.
    """

    messages: int
    bytes: int
    oldest_offset: int | None
    newest_offset: int | None
    next_offset: int
    dropped: bool
    unreadable: int = 0


class ProcessQueue:
    """The messages of one owned queue between their arrival and the end of their handlers.

    Invariants: `oldest` is the smallest offset that is not done; all below `committable` is done,
    or was filtered out; offsets arrive in rising order. It belongs to one event loop
    (ProcessQueue.java).

    A queue that is lost is `dropped` first: no handler begins any more, those that run may end and
    count. Then it is `released`: its offset is with the next owner, and nothing counts any more.
    """

    __slots__ = (
        "_done",
        "_idle",
        "_offsets",
        "_room",
        "_room_below",
        "bytes",
        "count",
        "dropped",
        "last_handled",
        "last_pull",
        "next_offset",
        "released",
        "running",
        "unreadable",
    )

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset  # the first offset that was not asked for yet
        self.count = 0  # messages fetched and not done
        self.bytes = 0  # of their bodies, unpacked
        self.unreadable = 0  # messages that were not handed out
        self.running = 0  # handlers that work on one of them at this moment
        self.dropped = False  # no longer ours: no handler may begin
        self.released = False  # somebody else's: no outcome counts any more
        self.last_pull = time.monotonic()
        self.last_handled = self.last_pull
        self._offsets: deque[int] = deque()  # not done, and those done behind an older one
        self._done: set[int] = set()  # of `_offsets`
        self._room: asyncio.Future[None] | None = None
        self._room_below = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def committable(self) -> int:
        """The offset to commit: everything before it has been consumed."""
        return self._offsets[0] if self._offsets else self.next_offset

    @property
    def span(self) -> int:
        """Newest minus oldest offset; large when one old message blocks the queue's commits."""
        return self._offsets[-1] - self._offsets[0] if self._offsets else 0

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        """Add what a pull brought; the next pull starts at `next_offset`."""
        size = 0
        add = self._offsets.append
        for message in messages:
            add(message.queue_offset)
            size += message.held_bytes
        self.count += len(messages)
        self.bytes += size
        self.next_offset = next_offset

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message waits here to be done; else it is, was expired, or moved."""
        offset = message.queue_offset
        return bool(self._offsets) and offset >= self._offsets[0] and offset not in self._done

    def done(self, message: ReceivedMessage) -> None:
        """Note that a message needs no more handling here; again, it changes nothing."""
        offset = message.queue_offset
        offsets = self._offsets
        if offsets and offsets[0] == offset:
            offsets.popleft()
            finished = self._done
            while finished and offsets[0] in finished:
                finished.remove(offsets.popleft())
        elif self.holds(message):
            self._done.add(offset)
        else:
            return
        self.count -= 1
        self.bytes -= message.held_bytes
        if self._room is not None and self.count <= self._room_below:
            self._announce_room()

    def drop(self) -> None:
        """Mark the queue as lost: its pull loop ends, and messages not begun are not handed out."""
        self.dropped = True
        self._announce_room()

    def correct(self, offset: int) -> None:
        """Forget what was fetched: the broker says that the queue goes on at `offset`."""
        self._offsets.clear()
        self._done.clear()
        self.count = self.bytes = 0
        self.next_offset = offset

    def finished(self) -> None:
        """Note that a handler that worked on one of the messages has ended."""
        self.running -= 1
        if not self.running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def wait_idle(self, seconds: float) -> bool:
        """Wait until no handler works on the queue's messages; False if time is up first."""
        if not self.running:
            return True
        idle = self._idle = asyncio.get_running_loop().create_future()
        await asyncio.wait([idle], timeout=seconds)
        return idle.done()

    async def wait_for_room(self, below: int, seconds: float) -> None:
        """Wait until at most `below` messages are left, the queue is dropped, or time is up."""
        loop = asyncio.get_running_loop()
        room = self._room = loop.create_future()
        self._room_below = below
        timer = loop.call_later(seconds, self._announce_room)
        try:
            await room
        finally:
            timer.cancel()
            if self._room is room:
                self._room = None

    def statistics(self) -> QueueStatistics:
        """Return the queue's present numbers."""
        offsets = self._offsets
        return QueueStatistics(
            self.count,
            self.bytes,
            offsets[0] if offsets else None,
            offsets[-1] if offsets else None,
            self.next_offset,
            self.dropped,
            self.unreadable,
        )

    def _announce_room(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None
