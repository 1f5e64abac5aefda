"""The binary ("ROCKETMQ") header: shorter than JSON, used where a client was told to.

    code i16 · language i8 · version i16 · opaque i32 · flag i32
    · remark length i32 + text · fields length i32 + {key length i16, key, value length i32, value}*

A length of zero means null, so an empty value does not survive (RocketMQSerializable.java).
"""

import struct
from typing import Final

from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.message.layout import Layout

_FIELDS: Final = Layout(code="h", language="b", version="h", opaque="i", flag="i", remark_bytes="i")
_FIXED: Final = _FIELDS.run()
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_KEY_BYTES_MAX: Final = 32_767


def encode_header_bytes(command: Command) -> bytes:
    """Write the header of a frame in RocketMQ's binary form.

    Raises ProtocolError for what it cannot carry: codes beyond int16 (POP and its relatives) and
    field names over 32,767 bytes; JSON can.
    """
    remark = command.remark.encode() if command.remark else b""
    fields: list[bytes] = []
    for name, value in command.ext.items():
        key, text = name.encode(), value.encode()
        if len(key) > _KEY_BYTES_MAX:
            raise ProtocolError(f"field name of {len(key)} bytes, limit {_KEY_BYTES_MAX}")
        fields += (_INT16.pack(len(key)), key, _INT32.pack(len(text)), text)
    packed = b"".join(fields)
    try:
        fixed = _FIXED.pack(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            len(remark),
        )
    except struct.error as error:
        raise ProtocolError(
            f"code {command.code} or version {command.version} does not fit the binary header: "
            f"{error}"
        ) from None
    return b"".join((fixed, remark, _INT32.pack(len(packed)), packed))


def decode_header_bytes(data: bytes | memoryview, body: bytes = b"") -> Command:
    """Read a binary header; bytes after the last field are ignored.

    Bytes that are no UTF-8 become U+FFFD, as in Java. Raises ProtocolError for lengths that point
    outside.
    """
    data = bytes(data)
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(data)
        at = _FIXED.size
        remark, at = _text(data, at, remark_bytes, len(data))
        (fields_bytes,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        end = at + max(fields_bytes, 0)  # Java takes a negative length for no fields
        if end > len(data):
            raise ProtocolError(f"fields of {fields_bytes} bytes in a header of {len(data)}")
        ext: dict[str, str] = {}
        while at < end:
            (key_bytes,) = _INT16.unpack_from(data, at)
            key, at = _text(data, at + _INT16.size, key_bytes, end)
            (value_bytes,) = _INT32.unpack_from(data, at)
            value, at = _text(data, at + _INT32.size, value_bytes, end)
            if key and value:
                ext[key] = value
    except struct.error as error:
        raise ProtocolError(f"binary header is damaged: {error}") from None
    return Command(
        code=code,
        ext=ext,
        body=body,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        language=language,
        version=version,
        codec=Codec.ROCKETMQ,
    )


def _text(data: bytes, at: int, text_bytes: int, end_max: int) -> tuple[str, int]:
    end = at + text_bytes
    if text_bytes < 0 or end > end_max:
        raise ProtocolError(
            f"text of {text_bytes} bytes at byte {at}, the header ends at {end_max}"
        )
    return data[at:end].decode("utf-8", "replace"), end
