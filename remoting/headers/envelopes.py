"""Headers of sends and pulls straight from their bytes: only what a fast path looks at.

A header has an outer part, the same for all requests, and the fields of its kind. Fields travel as
strings in every codec; the decoders turn them into numbers on the way.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from aerobee.remoting.command import Codec
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.headers.typed import Int32, Int64


class SendFields(msgspec.Struct, gc=False):
    """The header fields of a send that the broker looks at (SendMessageRequestHeaderV2)."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: int = msgspec.field(name="d")
    queue_id: int = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str = msgspec.field(name="i", default="")
    reconsume_times: int = msgspec.field(name="j", default=0)
    batch: bool = msgspec.field(name="m", default=False)
    access_key: str = msgspec.field(name="AccessKey", default="")


class Envelope(Protocol):
    """The outer part of a header, with its fields still encoded."""

    code: int
    opaque: int
    flag: int
    ext_fields: msgspec.Raw


class JsonEnvelope(msgspec.Struct, gc=False, rename={"ext_fields": "extFields"}):
    """The outer part of a JSON header."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext_fields: msgspec.Raw = msgspec.Raw(b"{}")


class MsgpackEnvelope(msgspec.Struct, array_like=True, gc=False):
    """The outer part of a msgpack header; what follows the flag does not matter here."""

    code: int
    ext_fields: msgspec.Raw
    opaque: int
    flag: int


class JsonSend(msgspec.Struct, gc=False, rename={"ext_fields": "extFields"}):
    """A whole JSON header of a send, decoded at once."""

    code: int
    ext_fields: SendFields
    opaque: int = 0
    flag: int = 0


class JsonEnd(msgspec.Struct, gc=False, rename={"ext_fields": "extFields"}):
    """A whole JSON header of an END_TRANSACTION, decoded at once."""

    code: int
    ext_fields: EndTransactionRequest
    opaque: int = 0
    flag: int = 0


decode_json_send: Final = msgspec.json.Decoder(JsonSend, strict=False).decode
decode_json_end: Final = msgspec.json.Decoder(JsonEnd, strict=False).decode

DECODE_ENVELOPE: Final[dict[int, Callable[[bytes], Envelope]]] = {
    Codec.JSON: msgspec.json.Decoder(JsonEnvelope).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(MsgpackEnvelope).decode,
}
DECODE_SEND: Final[dict[int, Callable[[msgspec.Raw], SendFields]]] = {
    Codec.JSON: msgspec.json.Decoder(SendFields, strict=False).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(SendFields, strict=False).decode,
}
DECODE_END: Final[dict[int, Callable[[msgspec.Raw], EndTransactionRequest]]] = {
    Codec.JSON: msgspec.json.Decoder(EndTransactionRequest, strict=False).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(EndTransactionRequest, strict=False).decode,
}
DECODE_PULL: Final[dict[int, Callable[[msgspec.Raw], PullMessageRequest]]] = {
    Codec.JSON: msgspec.json.Decoder(PullMessageRequest, strict=False).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(PullMessageRequest, strict=False).decode,
}
