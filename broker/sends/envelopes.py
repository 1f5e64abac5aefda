"""Headers as the fast path decodes them: only what is looked at, straight from the bytes.

A header has an outer part, the same for all requests, and the fields of its kind. Fields travel as
strings in every codec; the decoders turn them into numbers on the way.
"""

from collections.abc import Callable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from aerobee.remoting.command import Codec
from aerobee.remoting.headers.pull import PullMessageRequest

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class SendFields(msgspec.Struct, gc=False):
    """The header fields of a send that the broker looks at (SendMessageRequestHeaderV2)."""

    a: str  # producer group
    b: str  # topic
    c: str  # default topic
    d: int  # default topic's queues
    e: int  # queue id
    f: Int32  # sys flag
    g: Int64  # born timestamp
    h: Int32  # flag
    i: str = ""  # properties
    j: int = 0  # reconsume times
    m: bool = False  # batch


class Envelope(Protocol):
    """The outer part of a header, with its fields still encoded."""

    code: int
    opaque: int
    flag: int
    extFields: msgspec.Raw


class JsonEnvelope(msgspec.Struct, gc=False):
    """The outer part of a JSON header."""

    code: int
    opaque: int = 0
    flag: int = 0
    extFields: msgspec.Raw = msgspec.Raw(b"{}")


class MsgpackEnvelope(msgspec.Struct, array_like=True, gc=False):
    """The outer part of a msgpack header; what follows the flag does not matter here."""

    code: int
    extFields: msgspec.Raw
    opaque: int
    flag: int


class JsonSend(msgspec.Struct, gc=False):
    """A whole JSON header of a send, decoded at once."""

    code: int
    extFields: SendFields
    opaque: int = 0
    flag: int = 0


decode_json_send: Final = msgspec.json.Decoder(JsonSend, strict=False).decode

DECODE_ENVELOPE: Final[dict[int, Callable[[bytes], Envelope]]] = {
    Codec.JSON: msgspec.json.Decoder(JsonEnvelope).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(MsgpackEnvelope).decode,
}
DECODE_SEND: Final[dict[int, Callable[[msgspec.Raw], SendFields]]] = {
    Codec.JSON: msgspec.json.Decoder(SendFields, strict=False).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(SendFields, strict=False).decode,
}
DECODE_PULL: Final[dict[int, Callable[[msgspec.Raw], PullMessageRequest]]] = {
    Codec.JSON: msgspec.json.Decoder(PullMessageRequest, strict=False).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(PullMessageRequest, strict=False).decode,
}
