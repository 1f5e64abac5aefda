"""What was fetched from one queue and is not yet done, and the offset that may be committed."""

import asyncio
import enum
import time
from bisect import bisect_left
from collections import deque
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from aerobee.client.compiled.choice import measure
from aerobee.client.pulls.pulled_offsets import PulledOffsets
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.lives import Life, Move

_LAST: Final = attrgetter("last")


class Stage(enum.Enum):
    """The stages of a process queue; each value says what may still become of its messages."""

    OWNED = "it is pulled, handlers begin, and what they end counts"
    DROPPED = "no handler begins any more; those that run may end, and count"
    RELEASED = "somebody else's, or sought elsewhere: nothing counts any more"


LIFE: Final = Life(
    "process queue",
    Move(Stage.OWNED, "drop", Stage.DROPPED, "it falls to another member, or this one leaves"),
    Move(
        Stage.OWNED, "release", Stage.RELEASED, "it was sought, or consumed while its lock was lost"
    ),
    Move(Stage.DROPPED, "release", Stage.RELEASED, "its handlers have ended, or their time has"),
    Move(Stage.RELEASED, "drop", Stage.RELEASED, "who lost its lock gives it up"),
    Move(Stage.RELEASED, "release", Stage.RELEASED, "its end comes after the loss of its lock"),
)


class QueueStatistics(NamedTuple):
    """A look at one process queue; offsets count messages.

        for queue, state in consumer.statistics().queues.items():
            print(queue.queue_id, state.messages, "fetched, next is", state.next_offset)

    `messages` are fetched and not done, `oldest_offset` to `newest_offset`; `bytes` are those of
    their unpacked bodies, as they are held; `dropped` says that it goes to another member;
    `unreadable` messages came since the queue is ours, whose body cannot be unpacked or is damaged.
    """

    messages: int
    bytes: int
    oldest_offset: int | None
    newest_offset: int | None
    next_offset: int
    dropped: bool
    unreadable: int = 0


class OpenRun(Protocol):
    """Messages of a queue that one worker handles one after the other, and books together."""

    def book(self) -> None:
        """Book those whose handlers have ended."""
        ...


class ProcessQueue:
    """The messages of one owned queue between their arrival and the end of their handlers.

    Invariants: `oldest` is the smallest offset that is not done; all below `committable` is done,
    or was filtered out; offsets arrive in rising order. It belongs to one event loop
    (ProcessQueue.java).

    `LIFE` has the moves between the states of its life. `dropped` and `released` say the same to
    who asks for each message: that no handler may begin, that no outcome counts.

    Offsets are kept pull by pull (`PulledOffsets`). A worker whose handlers do not wait books many
    messages at once; who looks here meanwhile, as one of them may, has that done first.
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_idle",
        "_pulls",
        "_room",
        "_room_below",
        "_runs",
        "_state",
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
        self.unreadable = 0  # messages that were not handed out
        self.running = 0  # handlers that work on one of them at this moment
        self.dropped = False  # as `_state` says
        self.released = False  # as `_state` says
        self.last_pull = time.monotonic()
        self.last_handled = self.last_pull
        self._state = Stage.OWNED
        self._pulls: deque[PulledOffsets] = deque()  # not done, and those behind such a one
        self._count = 0  # of the messages fetched and not done
        self._bytes = 0  # of their bodies
        self._runs: list[OpenRun] = []
        self._room: asyncio.Future[None] | None = None
        self._room_below = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """How many messages are fetched and not done."""
        if self._runs:
            self.book()
        return self._count

    @property
    def bytes(self) -> int:
        """The bytes of the bodies of messages fetched and not done, unpacked."""
        if self._runs:
            self.book()
        return self._bytes

    @property
    def committable(self) -> int:
        """The offset to commit: everything before it has been consumed."""
        if self._runs:
            self.book()
        return self._pulls[0].oldest if self._pulls else self.next_offset

    @property
    def span(self) -> int:
        """Newest minus oldest offset; large when one old message blocks the queue's commits."""
        if self._runs:
            self.book()
        return self._pulls[-1].last - self._pulls[0].oldest if self._pulls else 0

    # --- its life ---

    def drop(self) -> None:
        """Mark the queue as lost: its pull loop ends, and messages not begun are not handed out."""
        self._move("drop")

    def release(self) -> None:
        """Mark the queue as the next owner's, or as sought: whatever comes here, it goes on there.

        Where it was not dropped before it is that, too.
        """
        self._move("release")

    def _move(self, name: str) -> None:
        self._state = held = LIFE.after(self._state, name)
        self.dropped = held is not Stage.OWNED
        self.released = held is Stage.RELEASED
        self._announce_room()

    # --- what is fetched, and how far it is done ---

    def pulling(self, now_s: float) -> None:
        """Note that its loop is at work, by the loop's clock."""
        self.last_pull = now_s

    def put(
        self, messages: list[ReceivedMessage], next_offset: int, *, unreadable: int = 0
    ) -> None:
        """Add what a pull brought, so many of it unreadable; the next starts at `next_offset`."""
        if messages:
            pulled, held_bytes = PulledOffsets.of(messages)
            self._pulls.append(pulled)
            self._count += len(messages)
            self._bytes += held_bytes
        self.unreadable += unreadable
        self.next_offset = next_offset

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message waits here to be done; else it is, was expired, or moved."""
        if self._runs:
            self.book()
        pulled = self._pull_of(message.queue_offset)
        return pulled is not None and pulled.holds(message.queue_offset)

    def done(self, message: ReceivedMessage, handled_s: float | None = None) -> None:
        """Note that a message needs no more handling here; again, it changes nothing.

        `handled_s` is when its handler ended, where nobody has told that by `handled`.
        """
        if handled_s is not None:
            self.last_handled = handled_s
        pulled = self._pull_of(message.queue_offset)
        if pulled is not None and pulled.finish(message.queue_offset):
            self._count_done(1, message.held_bytes)

    def done_all(self, messages: list[ReceivedMessage]) -> None:
        """The same of several, at once where they follow each other in one pull."""
        if not messages:
            return
        pulled = self._pull_of(messages[0].queue_offset)
        if pulled is not None and pulled.finish_all(messages):
            self._count_done(len(messages), measure(messages)[0])
            return
        for message in messages:
            self.done(message)

    def _pull_of(self, offset: int) -> PulledOffsets | None:
        """Return the pull that an offset came with, if it may be among those kept."""
        pulls = self._pulls
        if not pulls:
            return None
        if offset <= pulls[0].last:
            return pulls[0]
        at = bisect_left(pulls, offset, key=_LAST)
        return pulls[at] if at < len(pulls) else None

    def _count_done(self, messages: int, held_bytes: int) -> None:
        self._count -= messages
        self._bytes -= held_bytes
        pulls = self._pulls
        while pulls and pulls[0].is_done:
            pulls.popleft()
        if self._room is not None and self._count <= self._room_below:
            self._announce_room()

    def skip_to(self, offset: int) -> None:
        """Pull on at `offset`: what is before it, and was not fetched, has expired."""
        self.next_offset = offset

    def correct(self, offset: int) -> None:
        """Forget what was fetched: the broker says that the queue goes on at `offset`."""
        if self._runs:
            self.book()
        self._pulls.clear()
        self._count = self._bytes = 0
        self.next_offset = offset

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

    def _announce_room(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    # --- handlers ---

    def begun(self) -> None:
        """Note that a handler, or whatever else takes its time, works on some of the messages."""
        self.running += 1

    def begin_run(self, run: OpenRun) -> None:
        """Note that a worker has `begun`, and books its messages together, or when it is asked."""
        self._runs.append(run)
        self.running += 1

    def end_run(self, run: OpenRun) -> None:
        """Note that a worker has booked the last of them; `finished` is to follow."""
        self._runs.remove(run)

    def book(self) -> None:
        """Have what workers have handled booked; whatever looks here does that first."""
        for run in self._runs:
            run.book()

    def handled(self, now_s: float) -> None:
        """Note that a handler has ended, by the loop's clock; what it answered is to be seen to."""
        self.last_handled = now_s

    def finished(self) -> None:
        """Note that who had `begun` has ended, and all that follows from it."""
        self.running -= 1
        if self._idle is not None and not self.running and not self._idle.done():
            self._idle.set_result(None)

    async def wait_idle(self, seconds: float) -> bool:
        """Wait until no handler works on the queue's messages; False if time is up first."""
        if not self.running:
            return True
        idle = self._idle = asyncio.get_running_loop().create_future()
        await asyncio.wait([idle], timeout=seconds)
        return idle.done()

    # --- looking in ---

    def statistics(self) -> QueueStatistics:
        """Return the queue's present numbers."""
        if self._runs:
            self.book()
        pulls = self._pulls
        return QueueStatistics(
            self._count,
            self._bytes,
            pulls[0].oldest if pulls else None,
            pulls[-1].last if pulls else None,
            self.next_offset,
            self.dropped,
            self.unreadable,
        )
