"""The msgpack header: a third of JSON's cost, spoken only between our own client and broker.

A header is one array: [code, fields, opaque, flag, remark or nil, language, version]. Our client
says in its heartbeats that it knows it, the broker offers it in its replies to those, and both use
it for the requests that follow on that connection, all but sends; no other peer ever sees it.
"""

from typing import Final

import msgspec

from aerobee.remoting.command import INT32_MAX, INT32_MIN, Codec, Command
from aerobee.remoting.errors import ProtocolError

EXT_MSGPACK: Final = "AEROBEE_MSGPACK"
"""The field by which a heartbeat asks for this codec and its reply offers it; "true" in both."""


class _Header(msgspec.Struct, array_like=True, gc=False):
    code: int
    ext: dict[str, str]
    opaque: int
    flag: int
    remark: str | None
    language: int
    version: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Header).decode


def encode_header_bytes(command: Command) -> bytes:
    """Write the header of a frame as msgpack."""
    return _encode(
        _Header(
            command.code,
            command.ext,
            command.opaque,
            command.flag,
            command.remark,
            command.language,
            command.version,
        )
    )


def decode_header_bytes(data: bytes | memoryview, body: bytes = b"") -> Command:
    """Read a msgpack header; elements beyond the seventh are ignored.

    Raises ProtocolError for anything that is not such an array.
    """
    try:
        header = _decode(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"header is no msgpack of a command: {error}") from None
    for number in (header.code, header.opaque, header.flag, header.version, header.language):
        if not INT32_MIN <= number <= INT32_MAX:
            raise ProtocolError(f"header number {number} is no int32")
    return Command(
        code=header.code,
        ext=header.ext,
        body=body,
        opaque=header.opaque,
        flag=header.flag,
        remark=header.remark,
        language=header.language,
        version=header.version,
        codec=Codec.MSGPACK,
    )
