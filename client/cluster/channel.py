"""A connection as a client has it: one that mostly gets acknowledgements."""

from typing import ClassVar, Final

import msgspec

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE
from aerobee.remoting.frame import LENGTH_BYTES, WORD_BYTES, WORDS_BYTES
from aerobee.remoting.headers.acks import decode_ack
from aerobee.remoting.message.layout import FRAME_FIELDS
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.reading import ALL_SERVED, Served

HEADER_BYTES_MAX: Final = 4096  # of an acknowledgement that is not looked at in full

unpack_words: Final = FRAME_FIELDS.run().unpack_from


class Channel(Connection):
    """Reads the acknowledgements that one socket read brought without a Command for each.

    The future of a brief call gets an Ack for plain success, a Command for any other reply. What
    is anything else, or looks unusual, is left to `Connection.serve`, as all that is behind it.
    """

    __slots__ = ()

    reads_while_unsent: ClassVar[bool] = True
    """The broker may wait for us to take its replies; both waiting for each other would be the end.
    """

    def serve(self, data: bytes, read_bytes: int) -> Served:
        """Resolve sends as long as acknowledgements stand at the start of `data`."""
        at, end_of_data = 0, len(data)
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
        return super().serve(data[at:], read_bytes) if at < end_of_data else ALL_SERVED
