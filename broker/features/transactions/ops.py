"""Op messages: what the log itself says of half messages that are over.

One record per turn of the loop names all that ended in it. It is appended behind what was committed
in that turn, so a log that has it has those messages, and what lacks it lies at the log's end.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from aerobee.broker.features.transactions.texts import (
    OP_OFFSETS_MAX,
    OP_PROPERTIES,
    OP_TAG,
    op_body,
)
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.words import OP_HALF_TOPIC
from aerobee.storage.errors import LogBusy, StoreError

log = logging.getLogger(__name__)

BUSY_WAIT_S: Final = 0.1  # until log space is prepared
REFUSED_WAIT_S: Final = 1.0  # until a log that refuses is tried again
QUEUE_ID: Final = 0
NEIGHBOURS: Final = 1024  # offsets of halves


class PendingCall(Protocol):
    """What `call_later` of a loop returns."""

    def cancel(self) -> object:
        """Forget the call."""


class Clocks(msgspec.Struct, frozen=True):
    """The wall clock that records carry, one that never goes back, and `call_later` of a loop."""

    now_ms: Callable[[], int]
    steady_ms: Callable[[], int]
    call_later: Callable[[float, Callable[[], None]], PendingCall]


class OpMessages:
    """Writes op messages; `refused` hears what the store did not take.

    Nothing is scheduled while nothing is pending.
    """

    def __init__(
        self, writing: Writing, clock: Clocks, refused: Callable[[StoreError], None]
    ) -> None:
        self._store = writing.store
        self._queues = writing.queues
        self._appender = writing.appender
        self._tick = writing.tick
        self._stamp = Stamp(writing.store_host, writing.store_host)
        self.clock = clock
        self._on_refused = refused
        self._call: PendingCall | None = None
        self._answers: list[Callable[[bool], None]] = []
        self._refused = False
        self.on_written: Callable[[], None] = lambda: None
        self.pending: list[int] = []  # offsets of the half topic that no op message names yet
        self.written: deque[tuple[int, int]] = deque()  # offset of it, largest one that it names

    def when_written(self, done: Callable[[bool], None]) -> None:
        """Call `done(committed)` when what this turn has appended is in the log, or is lost."""
        self._answers.append(done)
        self._schedule()

    def over(self, offsets: Iterable[int]) -> None:
        """Have the op message of this turn name halves."""
        self.pending += offsets
        self._schedule()

    def _schedule(self) -> None:
        """Have `_turn_ends` called as this turn ends, or later where a wait is under way."""
        if self._call is None and self._tick.turn_ends is None:
            self._tick.turn_ends = self._turn_ends
        self._tick.schedule()  # what was committed waits for no op message

    def stop(self) -> None:
        """Write what is pending, and wait for nothing more."""
        self._turn_ends()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def write(self) -> float | None:
        """Append op messages for what is pending; return in how many s to try again.

        What a log refuses stays pending: it is found again by who committed it.
        """
        while self.pending:
            offsets = self.pending[:OP_OFFSETS_MAX]
            try:
                self._append(offsets)
            except LogBusy:
                return BUSY_WAIT_S
            except StoreError as error:
                self._on_refused(error)
                if not self._refused:
                    self._refused = True
                    log.error("op_message_waits halves=%d reason=%r", len(self.pending), str(error))
                return REFUSED_WAIT_S
            del self.pending[: len(offsets)]
            self._refused = False
        return None

    def forget(self, progress: int) -> int:
        """Drop what names halves below `progress` alone; return the first op message left."""
        while self.written and self.written[0][1] < progress:
            self.written.popleft()
        return self.written[0][0] if self.written else self.end

    def found(self, names: Iterable[tuple[int, int]]) -> None:
        """Take op messages that the store has, oldest first."""
        for offset, largest in names:
            self._note_written(offset, largest)

    @property
    def end(self) -> int:
        """The offset of the next op message."""
        queue = self._store.find_queue(OP_HALF_TOPIC, QUEUE_ID)
        return queue.max_offset if queue is not None else 0

    def _append(self, offsets: list[int]) -> None:
        queue = self._queues.get(OP_HALF_TOPIC, QUEUE_ID)
        now_ms = self.clock.now_ms()
        tags_code = self._appender.tag_hashes[OP_TAG]
        message = (0, op_body(offsets), OP_PROPERTIES, tags_code)
        stamp = self._stamp
        # not one that was sent: however small maxMessageSize is, it may be longer
        self._appender.append_again(queue, stamp.sys_flag, now_ms, stamp.at(now_ms), message)
        self._note_written(queue.stored.max_offset - 1, max(offsets))
        self.on_written()

    def _note_written(self, offset: int, largest: int) -> None:
        """Note what one names; those that name neighbours are one, which is over with the last."""
        if self.written and (last := self.written[-1])[1] // NEIGHBOURS == largest // NEIGHBOURS:
            self.written[-1] = last[0], max(last[1], largest)
        elif not self.written or self.written[-1][1] < largest:
            self.written.append((offset, largest))

    def _turn_ends(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        again_s: float | None = REFUSED_WAIT_S
        answers, self._answers = self._answers, []
        committed = False
        try:
            again_s = self.write()
            committed = self._tick.commit_log()
            self._tick.schedule()  # somebody may wait for the messages
        except Exception:  # no memory, say: what is pending is tried again
            log.exception("op_messages_failed")
        for done in answers:
            done(committed)
        if again_s is not None:
            self._call = self.clock.call_later(again_s, self._turn_ends)
