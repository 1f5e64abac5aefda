"""Frames: where one command ends and the next begins in a stream of bytes.

    total i32 · word u32 (top byte: codec, low 24 bits: header length) · header · body

`total` counts the bytes after itself. Source: RemotingCommand and NettyDecoder.java.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from aerobee.remoting import binary_header, json_header, msgpack_header
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.message.layout import FRAME_FIELDS

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # RocketMQ's com.rocketmq.remoting.frameMaxLength
HEADER_BYTES_MAX: Final = 4 * 1024 * 1024  # decoding takes memory many times a header's length
LENGTH_BYTES: Final = FRAME_FIELDS.behind("frame_bytes")
WORDS_BYTES: Final = FRAME_FIELDS.size  # both words, before the header
WORD_BYTES: Final = WORDS_BYTES - LENGTH_BYTES
TLS_BEGINS: Final = b"\x16\x03"  # a handshake of any version; as a frame it would have 352 MiB
_HEADER_LENGTH_MASK: Final = 0xFF_FFFF

_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_PREFIX: Final = FRAME_FIELDS.run()

_ENCODERS: Final[dict[int, Callable[[Command], bytes]]] = {
    Codec.JSON: json_header.encode_header_bytes,
    Codec.ROCKETMQ: binary_header.encode_header_bytes,
    Codec.MSGPACK: msgpack_header.encode_header_bytes,
}
_DECODERS: Final[dict[int, Callable[[bytes, bytes], Command]]] = {
    Codec.JSON: json_header.decode_header_bytes,
    Codec.ROCKETMQ: binary_header.decode_header_bytes,
    Codec.MSGPACK: msgpack_header.decode_header_bytes,
}


def encode_frame(command: Command) -> bytes:
    """Write a command as one frame, its header in the command's codec.

    Raises ProtocolError for a header that its codec or the 24 bits of its length cannot carry.
    """
    header = _ENCODERS[command.codec](command)
    if len(header) > _HEADER_LENGTH_MASK:
        raise ProtocolError(f"header of {len(header)} bytes, limit {_HEADER_LENGTH_MASK}")
    total = WORD_BYTES + len(header) + len(command.body)
    prefix = _PREFIX.pack(total, command.codec << 24 | len(header))
    return b"".join((prefix, header, command.body))


def decode_payload(
    payload: bytes | memoryview, *, header_bytes_max: int = HEADER_BYTES_MAX
) -> Command:
    """Read the command of a frame whose length word has been taken off.

    Raises ProtocolError for an unknown codec, a header that does not fit, or one that is damaged.
    """
    if len(payload) < WORD_BYTES:
        raise ProtocolError(f"frame of {len(payload)} bytes, at least {WORD_BYTES} expected")
    (word,) = _UINT32.unpack_from(payload)
    header_end = WORD_BYTES + (word & _HEADER_LENGTH_MASK)
    if header_end > len(payload):
        raise ProtocolError(
            f"header of {header_end - WORD_BYTES} bytes in a frame of {len(payload)}"
        )
    if header_end - WORD_BYTES > header_bytes_max:
        raise ProtocolError(f"header of {header_end - WORD_BYTES} bytes, limit {header_bytes_max}")
    decode = _DECODERS.get(word >> 24)
    if decode is None:
        raise ProtocolError(f"header codec {word >> 24} is unknown")
    return decode(bytes(payload[WORD_BYTES:header_end]), bytes(payload[header_end:]))


def check_length(data: bytes | memoryview, at: int, frame_bytes_max: int) -> int:
    """Return the length word at `at`: the bytes of the frame that follow it.

    Raises ProtocolError unless it leaves room for the header word and the whole frame, this word
    included, stays within the limit, as Netty's LengthFieldBasedFrameDecoder counts.
    """
    size = int.from_bytes(data[at : at + LENGTH_BYTES], "big", signed=True)
    if not LENGTH_BYTES <= size <= frame_bytes_max - LENGTH_BYTES:
        size_max = frame_bytes_max - LENGTH_BYTES
        if data[at : at + 2] == TLS_BEGINS:
            raise ProtocolError("a TLS handshake, which is not served here (tls.server.mode)")
        raise ProtocolError(f"frame of {size} bytes, allowed are {LENGTH_BYTES} to {size_max}")
    return size


class FrameReader:
    """Turns bytes as they arrive into commands: `feed` some, then iterate.

    It holds at most one unfinished frame beside what was fed last. After a ProtocolError it is of
    no more use: the connection has to be closed.
    """

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        *,
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self._buffer = bytearray()
        self._at = 0  # first byte that no command has been made of

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for the rest of their frame, or for iteration."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def __iter__(self) -> Iterator[Command]:
        """Yield every command that has arrived completely.

        Raises ProtocolError for a length outside the limits or a damaged header; commands before
        it have been yielded. The whole frame, length word included, counts against the limit, as
        in Netty's LengthFieldBasedFrameDecoder.
        """
        while self.pending_bytes >= LENGTH_BYTES:
            (total,) = _INT32.unpack_from(self._buffer, self._at)
            if not WORD_BYTES <= total <= self._frame_bytes_max - LENGTH_BYTES:
                raise ProtocolError(
                    f"frame of {total} bytes, expected {WORD_BYTES}.."
                    f"{self._frame_bytes_max - LENGTH_BYTES}"
                )
            start = self._at + LENGTH_BYTES
            if len(self._buffer) < start + total:
                return  # the rest has not arrived yet
            payload = bytes(memoryview(self._buffer)[start : start + total])
            self._at = start + total  # taken first: a caller may stop iterating here
            yield decode_payload(payload, header_bytes_max=self._header_bytes_max)
