"""Takes sends out of what was read, and answers them with SYSTEM_BUSY."""

import struct
from typing import Final

import msgspec

from aerobee.broker.envelopes import DECODE_ENVELOPE
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from aerobee.remoting.frame import encode_frame

SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
_LENGTH_BYTES: Final = 4
_WORDS_BYTES: Final = 8

_words = struct.Struct(">II").unpack_from


def without_sends(
    data: bytes, frame_bytes_max: int, remark: str, waited_ms: float
) -> tuple[bytes, list[bytes], int]:
    """Return what is left of a read without its sends, their refusals, and how many they were.

    `remark` gets the time and the number. One-way sends are dropped, as RocketMQ drops them. What
    is not understood, and a frame that has not arrived whole, is left for who knows what to do.
    """
    rest: list[bytes] = []
    refused: list[tuple[int, int]] = []  # opaque, codec
    dropped = at = 0
    while len(data) - at >= _WORDS_BYTES:
        length, word = _words(data, at)
        end = at + _LENGTH_BYTES + length
        if not _LENGTH_BYTES <= length <= frame_bytes_max or end > len(data):
            break
        found = _send(word >> 24, data[at + _WORDS_BYTES : at + _WORDS_BYTES + (word & 0xFF_FFFF)])
        if found is None:
            rest.append(data[at:end])
        elif found[1]:
            dropped += 1
        else:
            refused.append((found[0], word >> 24))
        at = end
    rest.append(data[at:])
    count = len(refused) + dropped
    text = remark % (waited_ms, count)
    return b"".join(rest), [_refusal(opaque, codec, text) for opaque, codec in refused], count


def _send(codec: int, header: bytes) -> tuple[int, bool] | None:
    """Return the opaque of a send and whether it is one-way, None for anything else."""
    decode = DECODE_ENVELOPE.get(codec)
    if decode is None:
        return None
    try:
        envelope = decode(header)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if envelope.code not in SENDS or envelope.flag & FLAG_RESPONSE:
        return None
    return envelope.opaque, bool(envelope.flag & FLAG_ONEWAY)


def _refusal(opaque: int, codec: int, remark: str) -> bytes:
    return encode_frame(
        Command(
            code=ResponseCode.SYSTEM_BUSY,
            ext={},
            opaque=opaque,
            flag=FLAG_RESPONSE,
            remark=remark,
            codec=codec,
        )
    )
