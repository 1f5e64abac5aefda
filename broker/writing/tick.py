"""One turn of the event loop: one write to the log, one to each connection."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import msgspec

from aerobee.broker.health.faults import Faults
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.net.connection import Connection
from aerobee.storage.errors import StoreError
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

SLOW_WRITE_S: Final = 0.05  # a write to the log that takes longer is remembered
COMMIT_BYTES: Final = 256 * 1024  # of a turn: more is written while caches have it
ACKS_HELD_S: Final = 0.02  # acknowledgements wait no longer for the rest of a turn

Acks = list[bytes]
Frames = list[bytes | memoryview]
Replies = Sequence[tuple[Connection, Sequence[bytes | memoryview]]]


class Tick:
    """Collects what one turn of the loop appends and answers; `commit` runs at the end of the turn.

    Cost is per turn and per connection, not per message: one store write, one socket write. A turn
    in which hundreds of connections have much to say takes long; it is done in parts then. With
    SYNC_FLUSH the acknowledgements wait for the disk, everything else leaves at once. A connection
    that cannot be written to is cut off, and the others get what is theirs.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, store: MessageStore, faults: Faults | None = None
    ) -> None:
        self._loop = loop
        self._faults = faults or Faults()
        self._store = store
        self._log = store.commit_log
        self.sync = store.settings.flush_mode == "SYNC_FLUSH"
        self.woken: list[TopicQueue] = []  # queues with waiters that got a message; may repeat
        self.wake: Callable[[list[TopicQueue]], None] = lambda queues: None  # those who wait
        self.turn_ends: Callable[[], None] | None = None  # has more to append, once; raises nothing
        self.slow_write: Callable[[float], None] = lambda took_s: None  # is told of it
        self._answers: list[tuple[Connection, Frames]] = []
        self._acks: list[tuple[Connection, Acks]] = []
        self._acks_since_s = 0.0
        self._scheduled = False
        self._sender: Connection | None = None  # who was acknowledged last
        self.lone: Connection | None = None  # ... who alone was, and the time before; nobody's disk
        self._losses_told = self._log.losses

    def schedule(self) -> None:
        """Make sure that `commit` runs once after the reads of this turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.commit)

    def answer(self, connection: Connection, frames: Frames) -> None:
        """Queue replies that need no disk."""
        self._answers.append((connection, frames))
        self.schedule()

    def acknowledge(self, connection: Connection, frames: Acks, now_s: float = 0.0) -> None:
        """Queue replies to sends: frames, which may be in pieces or several in one.

        `now_s` is when those were read that are answered; see `hurry`. Where they have brought the
        log more than COMMIT_BYTES and need no disk, a part of the turn ends here: its records are
        written while the processor's cache has them, and their senders go on meanwhile.
        """
        if not self._acks:
            self._acks_since_s = now_s
        self._acks.append((connection, frames))
        if self._log.position - self._log.committed >= COMMIT_BYTES and not self.sync:
            self.commit()
            return
        self.schedule()
        self.hurry(now_s)

    def hurry(self, now_s: float) -> None:
        """Commit at once where an acknowledgement has waited for more than ACKS_HELD_S."""
        if self._acks and now_s - self._acks_since_s > ACKS_HELD_S:
            self.commit()

    def commit_log(self) -> bool:
        """Write what is pending to the log now, for somebody who is about to read or to answer.

        False when it could not be written: then it is lost, and `commit` tells those senders.
        """
        began_s = monotonic()
        try:
            self._log.commit()
        except StoreError as error:
            log.error("commit failed error=%s", error)
            return False
        except Exception as error:  # noqa: BLE001  no memory, say: the next commit tries again
            self._faults.caught("commit", error)
            return False
        if (took_s := monotonic() - began_s) > SLOW_WRITE_S:
            self.slow_write(took_s)
        return True

    def commit(self) -> None:
        """Write the log, answer every connection, wake the pulls that waited, do what can wait."""
        if self.turn_ends is not None:
            turn_ends, self.turn_ends = self.turn_ends, None
            turn_ends()
        self._scheduled = False
        acks, self._acks = self._acks, []
        if acks and not self.sync:
            sender, self._sender = self._sender, acks[-1][0]
            self.lone = sender if len(acks) == 1 and sender is self._sender else None
        answers, self._answers = self._answers, []
        written = self.commit_log()
        if not written or self._log.losses != self._losses_told:  # here, or for a pull or a file
            self._losses_told = self._log.losses
            self._write(acks, ResponseCode.SERVICE_NOT_AVAILABLE)
        elif acks and self.sync:
            self._store.flusher.request(self._log.position, lambda ok: self._flushed(acks, ok))
        else:
            self._write(acks)
        self._write(answers)
        if self.woken:
            woken, self.woken = self.woken, []
            self.wake(woken)

    def when_durable(self, done: Callable[[bool], None]) -> None:
        """Call `done(flushed)` when what was appended is as durable as the store promises.

        That is at once with ASYNC_FLUSH, and after the disk's answer or the time-out with
        SYNC_FLUSH. What is to become durable must have been committed.
        """
        if self.sync:
            self._store.flusher.request(self._log.position, done)
        else:
            done(True)

    def _flushed(self, acks: Replies, ok: bool) -> None:
        """Send acknowledgements; with FLUSH_DISK_TIMEOUT where the disk was too slow."""
        self._write(acks, 0 if ok else ResponseCode.FLUSH_DISK_TIMEOUT)

    def _write(self, replies: Replies, code: int = 0) -> None:
        """Send what is for each connection, with another code than it says where one is given."""
        for connection, frames in replies:
            try:
                connection.write_now(recoded(frames, code) if code else frames)
            except Exception as error:  # noqa: BLE001  of this connection alone
                self._faults.caught("write", error, remote=connection.remote)
                connection.abort("internal error")


def recoded(frames: Sequence[bytes | memoryview], code: int) -> Acks:
    """Give acknowledgements another code."""
    reader = FrameReader()
    reader.feed(b"".join(frames))
    return [encode_frame(msgspec.structs.replace(ack, code=code)) for ack in reader]
