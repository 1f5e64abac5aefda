"""Many messages in the body of one SEND_BATCH_MESSAGE request.

    {total i32 · magic i32 = 0 · crc i32 = 0 · flag i32 · body length i32 + body
     · properties length i16 + properties}*

The topic, the queue and everything else they share stand in the request's header. Source:
MessageDecoder.encodeMessages.
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.layout import BATCH_FIELDS
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX

_HEAD: Final = BATCH_FIELDS.run()
_INT16: Final = struct.Struct(">h")
_OVERHEAD_BYTES: Final = _HEAD.size + _INT16.size


class BatchedMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch; `properties` is the raw property string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[BatchedMessage]) -> bytes:
    """Write messages as the body of one batch request.

    Raises ValueError for properties over 32,767 bytes; nobody checks the length of the whole here.
    """
    pieces: list[bytes] = []
    for message in messages:
        properties_bytes = len(message.properties)
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise ValueError(
                f"properties of {properties_bytes} bytes, limit {PROPERTIES_BYTES_MAX}"
            )
        body_bytes = len(message.body)
        total = _OVERHEAD_BYTES + body_bytes + properties_bytes
        pieces += (
            _HEAD.pack(total, 0, 0, message.flag, body_bytes),
            message.body,
            _INT16.pack(properties_bytes),
            message.properties,
        )
    return b"".join(pieces)


def split_batch(body: bytes | memoryview) -> list[BatchedMessage]:
    """Read the messages of a batch body.

    Raises RequestError (MESSAGE_ILLEGAL) naming the byte where a length does not fit.
    """
    data = bytes(body)
    end = len(data)
    at = 0
    messages: list[BatchedMessage] = []
    try:
        while at < end:
            total, _, _, flag, body_bytes = _HEAD.unpack_from(data, at)
            body_at = at + _HEAD.size
            body_end = body_at + body_bytes
            if body_bytes < 0:
                raise _illegal(at, f"a body of {body_bytes} bytes")
            (properties_bytes,) = _INT16.unpack_from(data, body_end)
            properties_at = body_end + _INT16.size
            properties_end = properties_at + properties_bytes
            if properties_bytes < 0 or properties_end != at + total or properties_end > end:
                raise _illegal(at, f"{total} bytes, its parts end at byte {properties_end}")
            properties = data[properties_at:properties_end]
            messages.append(BatchedMessage(flag, data[body_at:body_end], properties))
            at = properties_end
    except struct.error:
        raise _illegal(at, "it is cut off") from None
    return messages


def _illegal(at: int, found: str) -> RequestError:
    return RequestError(
        ResponseCode.MESSAGE_ILLEGAL, f"batch is damaged: message at byte {at}: {found}"
    )
