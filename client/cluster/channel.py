"""A connection as a client has it: one that mostly gets acknowledgements."""

import asyncio
from typing import ClassVar, Final, Protocol

import msgspec

from aerobee.client.cluster.found import FoundReply, TakesFound, decode_found
from aerobee.client.cluster.large_reads import LARGE_READ_BYTES, LargeReads
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE, Command
from aerobee.remoting.frame import LENGTH_BYTES, WORD_BYTES, WORDS_BYTES
from aerobee.remoting.headers.acks import decode_ack
from aerobee.remoting.message.layout import FRAME_FIELDS
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.reading import ALL_SERVED, Served

HEADER_BYTES_MAX: Final = 4096  # of an acknowledgement that is not looked at in full

unpack_words: Final = FRAME_FIELDS.run().unpack_from


class SendLane(Protocol):
    """What a connection asks of the single sends on it; see sending/lanes.py."""

    @property
    def unanswered(self) -> int:
        """How many messages the broker has not answered."""

    def feed(self, data: bytes, at: int) -> int:
        """Settle what plain acknowledgements answer; return where the first other frame begins."""

    def answer(self, command: Command) -> bool:
        """Take a reply that is not a plain acknowledgement; False where nobody waits for it."""

    def end(self) -> None:
        """The connection is closed from this side; nothing more will be read from it."""


class Channel(Connection):
    """Reads the acknowledgements that one socket read brought without a Command for each.

    The future of a brief call gets an Ack for plain success, a Command for any other reply; who
    takes `FoundReply` gets it where a pull has found messages. What is anything else, or looks
    unusual, is left to `Connection.serve`, as all that is behind it. While reads bring many
    messages, `LargeReads` stands before it.
    """

    __slots__ = ("_large", "lane")

    reads_while_unsent: ClassVar[bool] = True
    """The broker may wait for us to take its replies; both waiting for each other would be the end.
    """

    def __init__(
        self, handler: Handler, limits: NetLimits | None = None, budget: Budget | None = None
    ) -> None:
        super().__init__(handler, limits, budget)
        self.lane: SendLane | None = None
        self._large: LargeReads | None = None

    @property
    def calls_waiting(self) -> int:
        """How many calls and single sends wait for their reply."""
        waiting = len(self._calls.waiting)
        return waiting if self.lane is None else waiting + self.lane.unanswered

    def _move(self, name: str, reason: str = "") -> None:
        super()._move(name, reason)
        if self.lane is not None and self.closed and not self.gone:
            self.lane.end()

    def dispatch(self, command: Command) -> None:
        """Hand a reply to the send that waits for it, anything else on."""
        lane = self.lane
        if lane is None or not command.is_response or not lane.answer(command):
            super().dispatch(command)

    def serve(self, data: bytes, read_bytes: int) -> Served:
        """Resolve sends and pulls as long as plain replies to them stand at the start of `data`."""
        at, end_of_data = 0, len(data)
        lane = self.lane
        while at < end_of_data:
            begun = at
            if lane is not None:
                at = lane.feed(data, at)
            at = self.hand_found(data, self._resolve(data, at), end_of_data)
            if at == begun:
                break
            if self.closed:
                return ALL_SERVED
        return super().serve(data[at:], read_bytes) if at < end_of_data else ALL_SERVED

    def hand_found(self, data: bytes | memoryview, at: int, end_of_data: int) -> int:
        """Hand replies over that have brought messages; return where the first other frame begins.

        Who takes them may close the connection.
        """
        begun, frame_bytes_max = at, self.limits.frame_bytes_max
        while end_of_data - at > WORDS_BYTES and not self.closed:
            length, size = unpack_words(data, at)  # with a body, and with the codec byte of JSON
            body_at, end = at + WORDS_BYTES + size, at + LENGTH_BYTES + length
            if size > HEADER_BYTES_MAX or end > end_of_data or body_at >= end:
                break
            if end - at > frame_bytes_max:
                break  # and refused, as where it arrives in pieces
            try:
                reply = decode_found(data[at + WORDS_BYTES : body_at])
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                break
            if reply.code != ResponseCode.SUCCESS or not reply.flag & FLAG_RESPONSE:
                break
            taker = self._calls.taker(reply.opaque, TakesFound)
            if taker is None:
                break
            body = memoryview(data)[body_at:end]
            taker.set_result(FoundReply(reply.code, reply.ext_fields, body))
            body.release()  # the memory may be written over
            at = end
        if at - begun >= LARGE_READ_BYTES and self._large is None and not self.closed:
            self._read_large()
        return at

    def _read_large(self) -> None:
        """Have reads land in memory of this client's own, where they are not decrypted first."""
        transport = self.transport
        if transport.get_extra_info("sslcontext") is None and transport.is_reading():
            self._large = LargeReads(self)
            self._read_by(self._large)

    def note_read(self) -> None:
        """Note that the broker has sent something."""
        self.heard = True

    def read_small(self) -> None:
        """Have reads come as bytes again."""
        if self.transport.is_reading():
            self._large = None
            self._read_by(self)

    def _read_by(self, protocol: asyncio.BaseProtocol) -> None:
        self.transport.pause_reading()  # some loops choose how to read when they begin to
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    def _resolve(self, data: bytes, at: int) -> int:
        """Resolve brief calls; return where the first other frame begins."""
        end_of_data = len(data)
        answer = self._calls.answer_briefly
        while end_of_data - at > WORDS_BYTES:
            length, size = unpack_words(data, at)  # without a body, and with the codec byte of JSON
            end = at + LENGTH_BYTES + length
            if length != size + WORD_BYTES or size > HEADER_BYTES_MAX or end > end_of_data:
                break
            try:
                ack = decode_ack(data[at + WORDS_BYTES : end])
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                break
            if ack.code != ResponseCode.SUCCESS or not ack.flag & FLAG_RESPONSE:
                break
            if not answer(ack.opaque, ack):
                break
            at = end
        return at
