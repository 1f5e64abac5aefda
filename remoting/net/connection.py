"""One TCP connection: frames in, frames out, and the calls that wait for their reply.

Both sides use it. Requests go to the handler, replies to the call that waits for them. A peer that
does not read what it asked for is not read from either; a frame is held only as far as it arrived.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, cast

from msgspec.structs import replace

from aerobee.remoting.command import FLAG_ONEWAY, Codec, Command, next_opaque
from aerobee.remoting.errors import ConnectionLost, ProtocolError, Unavailable
from aerobee.remoting.frame import LENGTH_BYTES, check_length, decode_payload, encode_frame
from aerobee.remoting.lives import Life, Move
from aerobee.remoting.net.addresses import format_address, pack_address, peer_address
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.calls import AwaitsReply, Calls
from aerobee.remoting.net.disconnect_reasons import why_lost
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.reading import ALL_SERVED, STOP_UNSENT, ReadingSide, Rest, Served

log = logging.getLogger(__name__)

_COPIED_ONCE_BYTES: Final = 16 * 1024
"""A body is copied out of what was read; of a larger frame not the whole before that."""

Handler = Callable[["Connection", Command], None]


class State(enum.Enum):
    """The states of a connection; each value says what may still be sent and served."""

    NEW = "nothing: there is no transport yet"
    OPEN = "all"
    CLOSING = "nothing: what was sent before `close` is on its way, after `abort` it is given up"
    GONE = "nothing: the transport has ended, and who asked was told"


LIFE: Final = Life(
    "connection",
    Move(State.NEW, "connection_made", State.OPEN, "its transport is there, past a TLS handshake"),
    Move(State.OPEN, "close", State.CLOSING, "this side ends it, or what came is no frame"),
    Move(State.OPEN, "abort", State.CLOSING, "the peer takes too much, or too long; an error here"),
    Move(State.OPEN, "connection_lost", State.GONE, "the peer has ended it, or the network"),
    Move(State.CLOSING, "connection_lost", State.GONE, "the transport has ended"),
)


class Connection(asyncio.Protocol):
    """One connection to a peer, on either side.

    It knows sockets: it reads, keeps what is no frame yet, writes, and ends. What frames mean is
    known to `serve` alone, which a subclass may replace; `dispatch` is there for commands that it
    does not know. `LIFE` has the moves of its life; `closed` is True as soon as nothing can be sent
    any more. `budget` is that of all connections of its owner. `msgpack` is set once both sides
    agreed on that header encoding; requests of ours then use it.
    """

    __slots__ = (
        "_calls",
        "_close_timer",
        "_loop",
        "_out",
        "_out_bytes",
        "_state",
        "_waiters",
        "budget",
        "close_reason",
        "closed",
        "handler",
        "heard",
        "host_bytes",
        "limits",
        "msgpack",
        "on_closed",
        "paused_since_s",
        "reading",
        "remote",
        "remote_host",
        "silent_looks",
        "transport",
    )

    reads_while_unsent: ClassVar[bool] = False
    """Whether a peer that does not take what was sent to it is read from all the same."""
    identity: str = ""  # of a certificate that the peer has shown, "" where nobody looks

    transport: asyncio.Transport
    reading: ReadingSide

    def __init__(
        self, handler: Handler, limits: NetLimits | None = None, budget: Budget | None = None
    ) -> None:
        self.handler = handler
        self.limits = limits or NetLimits()
        self.budget = budget or Budget(self.limits)
        self.remote = ""  # "ip:port"
        self.remote_host = ("", 0)
        self.host_bytes = b""  # 8 bytes for IPv4, 20 for IPv6, as in a message record
        self.closed = True  # as `_state` says: it is not OPEN
        self.close_reason = ""
        self.msgpack = False
        self.heard = True  # something arrived since the last `count_silence`
        self.silent_looks = 0
        self.on_closed: list[Callable[[Connection], None]] = []
        self.paused_since_s = 0.0
        self._state = State.NEW
        self._close_timer: asyncio.TimerHandle | None = None
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []

    # --- the transport's callbacks ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a fresh transport (asyncio calls this after a TLS handshake, too)."""
        self._move("connection_made")
        self._loop = asyncio.get_running_loop()
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.remote_host = peer_address(transport.get_extra_info("peername"))
        self.remote = format_address(*self.remote_host)
        self.host_bytes = pack_address(*self.remote_host)
        transport.set_write_buffer_limits(
            high=self.limits.write_pause_bytes, low=self.limits.write_resume_bytes
        )
        self._calls = Calls(self._loop, self.remote)
        self.reading = ReadingSide(self)

    def data_received(self, data: bytes) -> None:
        """Have served what arrived, behind what was kept; keep what is left of it."""
        self.heard = True
        read_bytes, reading = len(data), self.reading
        if reading.backlog or reading.frame.held_bytes:
            data = reading.join(data)
        try:
            rest, what = self.serve(data, read_bytes)
            if rest and not self.closed:
                reading.keep(rest, what)
        except Exception as error:  # noqa: BLE001 - one bad request may not end the server
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """End the connection: serving what it has read has raised an error."""
        if isinstance(error, ProtocolError):  # nothing after it can be understood either
            log.warning("protocol error remote=%s error=%s", self.remote, error)
            return self.close("protocol error")
        log.error("request handling failed remote=%s", self.remote, exc_info=error)
        return self.abort("internal error")

    def pause_writing(self) -> None:
        """The peer does not read: stop reading from it, and cut it off if too much is unsent."""
        self.paused_since_s = self._loop.time()
        if not self.reads_while_unsent:
            self.reading.stop(STOP_UNSENT)
        self.measure_unsent()

    def resume_writing(self) -> None:
        """The peer has read: go on with its requests."""
        self.budget.release_unsent(self)
        self.reading.resume(STOP_UNSENT)

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything that waits on this connection and tell those who asked."""
        self._move("connection_lost")
        answered = self.heard or self.silent_looks >= 0
        self.close_reason = reason = self.close_reason or why_lost(exc, answered=answered)
        log.debug("closed remote=%s reason=%s", self.remote, reason)
        if self._close_timer is not None:
            self._close_timer.cancel()
        self.reading.end()
        self._out.clear()
        self._out_bytes = 0
        self.budget.release_unsent(self)
        self._calls.fail(ConnectionLost(f"connection to {self.remote} lost: {reason}"))
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in self.on_closed:
            try:
                callback(self)
            except Exception:
                log.exception("on_closed callback failed remote=%s", self.remote)

    # --- serving ---

    def serve(self, data: bytes, read_bytes: int) -> Served:
        """Serve the complete frames that `data` starts with; return what is left, and what it is.

        `data` begins at a frame and ends with the last read, of `read_bytes`; it is empty while it
        cannot hold a complete frame. Errors are for `failed`; once it is closed nothing is left.
        """
        at, end_of_data, turns = 0, len(data), self.limits.frames_per_turn_max
        frame_bytes_max = self.limits.frame_bytes_max
        while end_of_data - at >= LENGTH_BYTES:
            end = at + LENGTH_BYTES + check_length(data, at, frame_bytes_max)
            if end > end_of_data:
                break
            if not turns:
                return data[at:], Rest.LATER
            turns -= 1
            seen = memoryview(data) if end - at > _COPIED_ONCE_BYTES else data
            self.dispatch(decode_payload(seen[at + LENGTH_BYTES : end]))
            at = end
            if self.closed:
                return ALL_SERVED
            if self.reading.unread_from:  # or one read of requests makes gigabytes of replies
                return data[at:], Rest.ASIDE
        return data[at:], Rest.BEGUN

    def dispatch(self, command: Command) -> None:
        """Hand a request to the handler, a reply to the call that waits for it."""
        if not command.is_response:
            self.handler(self, command)
            return
        if not self._calls.answer(command):
            log.debug("late reply remote=%s opaque=%d", self.remote, command.opaque)

    def count_silence(self) -> int:
        """Return at how many looks in a row, this one included, nothing had arrived."""
        self.silent_looks = 0 if self.heard else self.silent_looks + 1
        self.heard = False
        return self.silent_looks

    def expect_first_bytes(self) -> None:
        """Tell it, when the connection is lost, should the peer have said nothing at all."""
        self.heard, self.silent_looks = False, -1

    # --- sending ---

    def write(self, frame: bytes) -> None:
        """Send an encoded frame; those of one turn leave in one write while they are small.

        A frame for a connection that is closed is dropped: its peer cannot be told anything.
        """
        if self.closed:
            return
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes > self.limits.write_pause_bytes:
            self.flush()  # what the limits are about to stop must not pile up before they look

    def send(self, command: Command) -> None:
        """Send one command, most often a reply."""
        self.write(encode_frame(command))

    def write_now(self, frames: Iterable[bytes | memoryview]) -> None:
        """Send encoded frames at once; for a caller that has collected a whole turn's worth."""
        if not self.closed:
            self._out.extend(frames)
            self.flush()

    def flush(self) -> None:
        """Hand what `write` collected to the transport."""
        if not self._out:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        if self.transport.is_closing():
            return  # the peer left, or was cut off, since the frames were written
        self.transport.write(data)
        if self in self.budget.unsent:
            self.measure_unsent()

    def measure_unsent(self) -> None:
        """Account for what the peer has not taken; cut it off past `write_bytes_max`."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes > self.limits.write_bytes_max:
            self.abort("slow reader")
        else:
            self.budget.hold_unsent(self, unsent_bytes)

    @property
    def takes_more(self) -> bool:
        """Whether it is open, and its peer has taken nearly all that was written to it."""
        return not self.closed and self not in self.budget.unsent

    @property
    def calls_waiting(self) -> int:
        """How many calls of this side wait for their reply."""
        return len(self._calls.waiting)

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its reply, whatever its code.

        The command's own opaque is replaced by one that is free on this connection. Raises
        CallTimedOut after `timeout_s` seconds, ConnectionLost when the connection closes first,
        Unavailable when `limits.calls_max` calls are waiting already.
        """
        opaque = next_opaque()
        frame = encode_frame(self._outgoing(command, opaque, command.flag))
        reply: asyncio.Future[Command]
        reply = self.begin_frame(frame, opaque, command.code, timeout_s)
        try:
            return await reply
        except asyncio.CancelledError:
            self._calls.forget(opaque)
            raise

    def begin(
        self, code: int, ext: dict[str, str], body: bytes, timeout_s: float
    ) -> asyncio.Future[Command]:
        """Send a request as `call` does, and return the future of its reply at once."""
        codec = Codec.MSGPACK if self.msgpack else Codec.JSON
        command = Command(code, ext, body, next_opaque(), codec=codec)
        return self.begin_frame(encode_frame(command), command.opaque, code, timeout_s)

    def begin_frame(
        self, frame: bytes, opaque: int, code: int, timeout_s: float, *, brief: bool = False
    ) -> asyncio.Future[Any]:
        """Send an encoded request; `opaque` is of `next_opaque`, `brief` as in Calls.begin."""
        if self.closed or len(self._calls.waiting) >= self.limits.calls_max:
            self._check_usable()
        self.write(frame)
        return self._calls.begin(opaque, code, timeout_s, brief=brief)

    def begin_frame_for(
        self,
        reply: AwaitsReply,
        frame: bytes,
        opaque: int,
        code: int,
        timeout_s: float,
        *,
        at_once: bool = False,
    ) -> None:
        """Send a request, `at_once` or with this turn's others; `reply` takes what comes."""
        self._check_usable()
        self.write(frame)
        if at_once:
            self.flush()
        self._calls.begin_for(reply, opaque, code, timeout_s)

    def oneway(self, command: Command) -> None:
        """Send a request that gets no reply; raises ConnectionLost when closed."""
        flag = command.flag | FLAG_ONEWAY
        self.oneway_frame(encode_frame(self._outgoing(command, next_opaque(), flag)))

    def oneway_frame(self, frame: bytes) -> None:
        """Send a request that is encoded, and marked as one-way, already."""
        self._check_open()
        self.write(frame)

    def _outgoing(self, command: Command, opaque: int, flag: int) -> Command:
        codec = Codec.MSGPACK if self.msgpack else command.codec
        return replace(command, opaque=opaque, flag=flag, codec=codec)

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionLost(f"connection to {self.remote} is closed: {self.close_reason}")

    def _check_usable(self) -> None:
        self._check_open()
        if len(self._calls.waiting) >= self.limits.calls_max:
            raise Unavailable(f"{len(self._calls.waiting)} calls to {self.remote} wait already")

    # --- ending ---

    def close(self, reason: str) -> None:
        """Send what is waiting, then close; after `close_timeout_s` it is cut off."""
        if self.closed:
            return
        self.flush()
        if self.closed:
            return  # what was waiting is too much for a slow reader, which was cut off
        self._move("close", reason)
        self.transport.close()
        self._close_timer = self._loop.call_later(self.limits.close_timeout_s, self.transport.abort)

    def abort(self, reason: str) -> None:
        """Close without sending what is waiting, nor what `close` has left."""
        if not self.closed:
            self._move("abort", reason)
        self.transport.abort()

    @property
    def gone(self) -> bool:
        """Whether there is no transport: it has ended, or has not begun."""
        return self._state is State.GONE or self._state is State.NEW

    def _move(self, name: str, reason: str = "") -> None:
        """Make a move of `LIFE`; `reason` is told where it is ours."""
        self._state = LIFE.after(self._state, name)
        self.closed = self._state is not State.OPEN
        if reason:
            self.close_reason = reason
            self.budget.closed[reason] += 1

    async def wait_closed(self) -> None:
        """Return when the connection is gone and `on_closed` has been called."""
        if not self.gone:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
