"""Takes sends out of what was read, and answers them with SYSTEM_BUSY."""

from functools import lru_cache
from typing import Final

import msgspec

from aerobee.broker.compiled.choice import refuse_run
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command
from aerobee.remoting.frame import LENGTH_BYTES, WORDS_BYTES, encode_frame
from aerobee.remoting.headers.envelopes import DECODE_ENVELOPE
from aerobee.remoting.message.layout import FRAME_FIELDS

SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
_OPAQUE: Final = 1_234_567_890  # stands where the opaque of a request goes

_words = FRAME_FIELDS.run().unpack_from


def without_sends(
    data: bytes, late_bytes: int, frame_bytes_max: int, remark: str, waited_ms: float
) -> tuple[bytes, list[bytes], int]:
    """Return what is left of a read without its late sends, their refusals, how many they were.

    Late are the frames that end within `late_bytes`. `remark` gets the time and the number of
    requests. One-way sends are dropped, as RocketMQ drops them. What is not understood, and a frame
    that has not arrived whole, is left for who knows what to do.
    """
    ends = _ends(data, late_bytes, frame_bytes_max)
    if not ends:
        return data, [], 0
    text = remark % (waited_ms, len(ends))
    before, after = _around_opaque(text)
    rest: list[bytes] = []
    refusals: list[bytes] = []
    count = at = 0
    while True:
        if refuse_run is not None:
            at, answers, run = refuse_run(data, at, ends[-1], before, after)
            refusals.append(answers)
            count += run
        if at == ends[-1]:
            break
        length, word = _words(data, at)
        end = at + LENGTH_BYTES + length
        found = _send(word >> 24, data[at + WORDS_BYTES : at + WORDS_BYTES + (word & 0xFF_FFFF)])
        if found is None:
            rest.append(data[at:end])
        else:
            count += 1
            if not found[1]:
                refusals.append(_refusal(found[0], word >> 24, text))
        at = end
    rest.append(data[at:])
    return b"".join(rest), refusals, count


def _ends(data: bytes, late_bytes: int, frame_bytes_max: int) -> list[int]:
    """Return where the frames end that are whole within so many bytes."""
    ends: list[int] = []
    at = 0
    while late_bytes - at >= WORDS_BYTES:
        length = _words(data, at)[0]
        at += LENGTH_BYTES + length
        if not LENGTH_BYTES <= length <= frame_bytes_max or at > late_bytes:
            break
        ends.append(at)
    return ends


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


@lru_cache(maxsize=64)
def _around_opaque(remark: str) -> tuple[bytes, bytes]:
    """Return the header of a refusal before and behind the digits of its opaque, as JSON."""
    header = _refusal(_OPAQUE, Codec.JSON, remark)[WORDS_BYTES:]
    before, _, after = header.partition(b'"opaque":%d' % _OPAQUE)
    return before + b'"opaque":', after
