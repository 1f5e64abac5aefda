"""One TCP connection: frames in, frames out, and the calls that wait for their reply.

Both sides use it. Requests go to the handler, replies to the call that waits for them. A peer that
does not read what it asked for is not read from either; a frame is held only as far as it arrived.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from msgspec.structs import replace

from aerobee.remoting.command import FLAG_ONEWAY, Codec, Command, next_opaque
from aerobee.remoting.errors import ConnectionLost, ProtocolError, Unavailable
from aerobee.remoting.frame import decode_payload, encode_frame
from aerobee.remoting.net.addresses import format_address, pack_address, peer_address
from aerobee.remoting.net.budget import STOP_WAITING, Budget
from aerobee.remoting.net.calls import Calls
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.partial import LENGTH_BYTES, PartialFrame, check_length
from aerobee.remoting.net.reasons import lost_in_words

log = logging.getLogger(__name__)

Handler = Callable[["Connection", Command], None]

STOP_UNSENT: Final = 1  # why the peer is not read from: it does not take its replies
_STOP_BACKLOG: Final = 2  # ... or what it sent before is still being handled
_SERVE_NO_MORE: Final = STOP_UNSENT | STOP_WAITING


class Connection(asyncio.Protocol):
    """One connection to a peer, on either side.

    A subclass may take over `data_received` for speed. It then sets `heard`, starts with `gather`
    if there is a `backlog` or `partial.held_bytes`, ends with `hold(rest)` (a frame not complete)
    or `put_off(rest)` (frames for the next turn), and hands commands it does not know to
    `dispatch`. `closed` is True as soon as nothing can be sent any more. `msgpack` is set by the
    owner once both sides agreed on that header encoding; requests of ours then use it.
    """

    __slots__ = (
        "_calls",
        "_closing",
        "_loop",
        "_out",
        "_out_bytes",
        "_stops",
        "_waiters",
        "backlog",
        "budget",
        "close_reason",
        "closed",
        "gone",
        "handler",
        "heard",
        "host_bytes",
        "limits",
        "msgpack",
        "on_closed",
        "partial",
        "partial_since_s",
        "paused_since_s",
        "remote",
        "remote_host",
        "silent_looks",
        "transport",
        "waiting_bytes",
        "waiting_requests",
    )

    transport: asyncio.Transport

    def __init__(self, handler: Handler, limits: NetLimits | None = None) -> None:
        self.handler = handler
        self.limits = limits or NetLimits()
        self.budget = Budget(self.limits)  # the owner of many connections puts its own here
        self.remote = ""  # "ip:port"
        self.remote_host = ("", 0)
        self.host_bytes = b""  # 8 bytes for IPv4, 20 for IPv6, as in a message record
        self.closed = True  # until connected
        self.gone = True  # the transport has ended, or has not begun
        self.close_reason = ""
        self.msgpack = False
        self.heard = True  # something arrived since the last look for idle connections
        self.silent_looks = 0
        self.on_closed: list[Callable[[Connection], None]] = []
        self.partial = PartialFrame(self.limits.frame_bytes_max)
        self.partial_since_s = 0.0
        self.paused_since_s = 0.0
        self.backlog = b""
        self.waiting_requests = 0  # whose processors wait for something, see Budget
        self.waiting_bytes = 0
        self._closing: asyncio.TimerHandle | None = None
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._stops = 0
        self._waiters: list[asyncio.Future[None]] = []

    # --- the transport's callbacks ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a fresh transport (asyncio calls this after a TLS handshake, too)."""
        self._loop = asyncio.get_running_loop()
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.remote_host = peer_address(transport.get_extra_info("peername"))
        self.remote = format_address(*self.remote_host)
        self.host_bytes = pack_address(*self.remote_host)
        transport.set_write_buffer_limits(
            high=self.limits.write_pause_bytes, low=self.limits.write_resume_bytes
        )
        self._calls = Calls(self._loop, self.remote)
        self.closed = self.gone = False

    def data_received(self, data: bytes) -> None:
        """Take what arrived: dispatch every complete frame, keep the rest."""
        self.heard = True
        if self.backlog or self.partial.held_bytes:
            data = self.gather(data)
            if not data:
                return
        self.process(data)

    def pause_writing(self) -> None:
        """The peer does not read: stop reading from it, and cut it off if too much is unsent."""
        self.paused_since_s = self._loop.time()
        self.stop_reading(STOP_UNSENT)
        self.measure_unsent()

    def resume_writing(self) -> None:
        """The peer has read: go on with its requests."""
        self.budget.release_unsent(self)
        self.resume_reading(STOP_UNSENT)

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything that waits on this connection and tell those who asked."""
        self.closed = self.gone = True
        answered = self.heard or self.silent_looks >= 0
        self.close_reason = reason = self.close_reason or lost_in_words(exc, answered=answered)
        log.debug("closed remote=%s reason=%s", self.remote, reason)
        if self._closing is not None:
            self._closing.cancel()
        self.partial.clear()
        self.backlog = b""
        self._out.clear()
        self._out_bytes = 0
        self.budget.release_partial(self)
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

    # --- receiving ---

    def process(self, data: bytes) -> None:
        """Dispatch the complete frames that `data` starts with; `data` begins at a frame."""
        at, end_of_data, turns = 0, len(data), self.limits.frames_per_turn_max
        frame_bytes_max = self.limits.frame_bytes_max
        try:
            while end_of_data - at >= LENGTH_BYTES:
                end = at + LENGTH_BYTES + check_length(data, at, frame_bytes_max)
                if end > end_of_data:
                    break
                if not turns:
                    self.put_off(data[at:])
                    return
                turns -= 1
                self.dispatch(decode_payload(data[at + LENGTH_BYTES : end]))
                at = end
                if self.closed:
                    return
                if self.unread_from and at < end_of_data:
                    self.put_aside(data[at:])  # or one read of requests makes gigabytes of replies
                    return
            if at < end_of_data:
                self.hold(data[at:])
        except ProtocolError as error:
            self.refuse(error)
        except Exception:
            log.exception("request handling failed remote=%s", self.remote)
            self.abort("internal error")

    def dispatch(self, command: Command) -> None:
        """Hand a request to the handler, a reply to the call that waits for it."""
        if not command.is_response:
            self.handler(self, command)
            return
        if not self._calls.answer(command):
            log.debug("late reply remote=%s opaque=%d", self.remote, command.opaque)

    def hold(self, rest: bytes) -> None:
        """Keep the beginning of a frame until the rest arrives; raises ProtocolError."""
        self.partial.keep(rest)
        self.partial_since_s = self._loop.time()
        self.budget.hold_partial(self, len(rest))

    def gather(self, data: bytes) -> bytes:
        """Join `data` to what is kept from before; b"" while no frame can be handled."""
        if self.backlog:  # a TLS transport may still deliver what it had when reading stopped
            self.backlog += data
            return b""
        whole = self.partial.gather(data)
        if whole:
            self.budget.release_partial(self)
        else:
            self.budget.hold_partial(self, self.partial.held_bytes)
        return whole

    def put_aside(self, rest: bytes) -> None:
        """Keep these frames and read no more until somebody calls `go_on`."""
        self.backlog = rest
        self.stop_reading(_STOP_BACKLOG)

    def put_off(self, rest: bytes) -> None:
        """Go on with these frames after the other connections had their turn."""
        self.put_aside(rest)
        self._loop.call_soon(self.go_on)

    def refuse(self, error: ProtocolError) -> None:
        """Close: what the peer sent cannot be understood, and nothing after it can be."""
        log.warning("protocol error remote=%s error=%s", self.remote, error)
        self.close("protocol error")

    def go_on(self) -> None:
        """Handle the frames that were put aside, unless the peer does not take its replies."""
        if self.unread_from or not self.backlog:
            return  # resume_reading comes back
        data, self.backlog = self.backlog, b""
        self.resume_reading(_STOP_BACKLOG)
        if not self.closed:
            self.data_received(data)

    def stop_reading(self, why: int) -> None:
        """Read no more from the peer until `resume_reading` has been called for every reason."""
        if not self._stops and not self.transport.is_closing():
            self.transport.pause_reading()
        self._stops |= why

    def resume_reading(self, why: int) -> None:
        """Take away one reason; go on with what was put aside meanwhile."""
        if self._stops == why and not self.transport.is_closing():
            self.transport.resume_reading()
            if self.partial.held_bytes:  # its rest could not arrive meanwhile: the time starts anew
                self.partial_since_s = self._loop.time()
                self.budget.renew_partial(self)
        self._stops &= ~why
        if self.backlog:
            self._loop.call_soon(self.go_on)

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
    def unread_from(self) -> bool:
        """Whether the peer gets no further request served before it, or the disk, has moved on."""
        return bool(self._stops & _SERVE_NO_MORE)

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
        self.closed = True
        self._mark(reason)
        self.transport.close()
        self._closing = self._loop.call_later(self.limits.close_timeout_s, self.transport.abort)

    def abort(self, reason: str) -> None:
        """Close without sending what is waiting."""
        if not self.close_reason:
            self._mark(reason)
        self.closed = True
        self.transport.abort()

    def _mark(self, reason: str) -> None:
        self.close_reason = reason
        self.budget.closed[reason] += 1

    async def wait_closed(self) -> None:
        """Return when the connection is gone and `on_closed` has been called."""
        if self.gone:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter
