"""Single sends on one connection: when they are written, answered, late or lost."""

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from aerobee.client.cluster.channel import Channel
from aerobee.client.sending.fast import Ring
from aerobee.client.sending.outgoing import SINGLE, outgoing_of, read_reply
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.command import Command
from aerobee.remoting.errors import (
    AerobeeError,
    CallTimedOut,
    ConnectionLost,
    NotConnected,
)
from aerobee.remoting.net.connection import Connection

LIMITS: Final = (1_024, 16 * 1024 * 1024)
"""Messages, and bytes of bodies, that may be unanswered on one connection: enough for its full
rate, and less than what brokers refuse for having waited too long in their queue."""

LOOK_GAP_S: Final = 0.02  # between two looks at those whose time may be up


class SendingLane:
    """Requests of one turn of the loop leave in one write, and replies settle their handles.

    It is told of the connection's end, by `end` where that is this side's doing: what was written
    then fails, and what waited for room finds another way, before any message that comes later.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._looks_s = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self.after_answer: Callable[[], None] | None = None  # called once
        self.ring = Ring(self, monotonic, wall_clock_ms, LIMITS)
        channel.lane = self
        channel.on_closed.append(self._lost)

    @property
    def unanswered(self) -> int:
        """How many messages the broker has not answered."""
        return self.ring.unanswered

    def begin_turn(self) -> None:
        """Have `flush` called at the end of this turn of the loop."""
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what the ring has now."""
        ring = self.ring
        frames = ring.take()
        if frames:
            self._channel.write_now((frames,))
        if ring.earliest_s < self._looks_s:
            self._look_at(ring.earliest_s)

    def feed(self, data: bytes, at: int) -> int:
        """Settle what plain acknowledgements answer; return where the first other frame begins."""
        ring = self.ring
        begun, at = at, ring.feed(data, at)
        if self.after_answer is not None and at > begun:
            self.after_answer()
            self.after_answer = None
        if ring.waiting_count:
            self._admit()
        return at

    def answer(self, command: Command) -> bool:
        """Take a reply that is not a plain acknowledgement; False where nobody waits for it."""
        handle = self.ring.pop(command.opaque)
        if handle is None:
            return False
        queue = handle.queue
        assert queue is not None
        try:
            result = read_reply(command, outgoing_of(handle), queue, self._channel.remote)
        except AerobeeError as error:
            handle.head.owner.failed(handle, error)
        else:
            handle._settle(result)
        if self.ring.waiting_count:
            self._admit()
        return True

    def _admit(self) -> None:
        if not self._channel.closed:
            self.ring.admit()
            self.flush()

    def _look_at(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_s = when_s
        self._timer = self._loop.call_later(max(when_s - monotonic(), LOOK_GAP_S), self._expire)

    def _expire(self) -> None:
        """Fail those whose time is up; come back for the next."""
        self._timer = None
        self._looks_s = math.inf
        remote = self._channel.remote
        written = [(handle, handle.sent) for handle in self.ring.expire(monotonic())]
        for handle, sent in written:
            error: AerobeeError
            if sent:
                error = CallTimedOut(f"no reply to code {SINGLE} from {remote} in the send's time")
            else:
                error = NotConnected(f"{remote}: the send's time was up before its turn came")
            handle.head.owner.failed(handle, error)
        if self.ring.earliest_s < math.inf:
            self._look_at(self.ring.earliest_s)
        if self.ring.waiting_count:
            self._admit()

    def end(self) -> None:
        """The connection is closed from this side; nothing more will be read from it."""
        self._lost(self._channel)

    def _lost(self, gone: Connection) -> None:
        """The connection has ended."""
        self.ring.close()
        if self._timer is not None:
            self._timer.cancel()
        lost = ConnectionLost(f"connection to {gone.remote} lost: {gone.close_reason}")
        for handle in self.ring.drain():
            owner: Any = handle.head.owner
            if handle.sent:
                owner.failed(handle, lost)
            else:
                owner.again(handle)


def ring_of(connection: Connection) -> Ring | None:
    """Return the ring of a connection that a client has made, made if need be."""
    if not isinstance(connection, Channel) or connection.closed:
        return None
    lane: Any = connection.lane
    return lane.ring if lane is not None else SendingLane(connection).ring
