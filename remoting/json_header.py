"""The JSON header: what every RocketMQ client speaks unless it is told otherwise."""

import re
from typing import Any, Final

import msgspec

from aerobee.remoting.command import (
    INT32_MAX,
    INT32_MIN,
    Codec,
    Command,
    language_name,
    language_number,
)
from aerobee.remoting.errors import ProtocolError


class _Header(msgspec.Struct, gc=False):
    """What well-behaved clients send; keys that are not named here are skipped."""

    code: int = 0
    language: str = "JAVA"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


class _OddHeader(msgspec.Struct, gc=False):
    """The same for clients that put numbers for strings and the reverse.

    Raw values cost no more memory than they have bytes, whatever is nested in them.
    """

    code: msgspec.Raw = msgspec.Raw(b"0")
    language: msgspec.Raw = msgspec.Raw(b'"JAVA"')
    version: msgspec.Raw = msgspec.Raw(b"0")
    opaque: msgspec.Raw = msgspec.Raw(b"0")
    flag: msgspec.Raw = msgspec.Raw(b"0")
    remark: msgspec.Raw = msgspec.Raw(b"null")
    extFields: dict[str, msgspec.Raw] | None = None


LANGUAGE_MAX: Final = 127  # a byte, where a header is not JSON

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Header).decode
_decode_odd: Final = msgspec.json.Decoder(_OddHeader).decode
_decode_text: Final = msgspec.json.Decoder(str).decode

_HALVES: Final = re.compile(
    rb"""(?: [^\\]++ | \\u d[89ab][0-9a-f]{2} \\u d[c-f][0-9a-f]{2} | \\(?! u d[89a-f]). )++
         | (\\u d[89a-f][0-9a-f]{2})""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""Text that has all its characters, or (group 1) half of a surrogate pair without the other."""


def encode_header_bytes(command: Command) -> bytes:
    """Write the header of a frame as JSON, keys sorted as RocketMQ's own writer sorts them.

    `extFields` and `remark` are left out where there is nothing to say, as fastjson does.
    """
    fields: dict[str, Any] = {"code": command.code}
    if command.ext:
        fields["extFields"] = command.ext
    fields["flag"] = command.flag
    fields["language"] = language_name(command.language)
    fields["opaque"] = command.opaque
    if command.remark is not None:
        fields["remark"] = command.remark
    fields["serializeTypeCurrentRPC"] = "JSON"
    fields["version"] = command.version
    return _encode(fields)


def decode_header_bytes(data: bytes | memoryview, body: bytes = b"") -> Command:
    """Read a JSON header; missing keys get Java's defaults, unknown ones are ignored.

    Values of `extFields` that are no strings are turned into the text they were written as, and
    null ones dropped; bytes that are no UTF-8 become U+FFFD, as in Java, and so does half of a
    surrogate pair. Raises ProtocolError for anything that is no JSON object of this shape.
    """
    try:
        header = _decode(data)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return _decode_tolerantly(data, body)
    return _command(
        header.code,
        header.opaque,
        header.flag,
        header.version,
        ext=header.extFields or {},
        remark=header.remark,
        language=language_number(header.language),
        body=body,
    )


def _decode_tolerantly(data: bytes | memoryview, body: bytes) -> Command:
    try:
        return _decode_oddities(data, body)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    mended = _mended(data)
    try:
        if mended != data:
            return _decode_oddities(mended, body)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise ProtocolError(f"header is no JSON of a command: {problem}")


def _decode_oddities(data: bytes | memoryview, body: bytes) -> Command:
    header = _decode_odd(data)
    ext = {name: _text(raw) for name, raw in (header.extFields or {}).items()}
    language = _text(header.language) or "OTHER"
    return _command(
        _integer("code", header.code),
        _integer("opaque", header.opaque),
        _integer("flag", header.flag),
        _integer("version", header.version),
        ext={name: value for name, value in ext.items() if value is not None},
        remark=_text(header.remark),
        language=_language(language),
        body=body,
    )


def _language(text: str) -> int:
    """Return the number of a language that is given by name or by its ordinal, a byte."""
    if text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= LANGUAGE_MAX:
        return int(text)
    return language_number(text)


def _mended(data: bytes | memoryview) -> bytes:
    """Put U+FFFD for whatever is no character: bytes that are no UTF-8, halves of a pair."""
    text = str(data, "utf-8", "replace").encode()
    mended = bytearray(text)
    for found in _HALVES.finditer(text):
        if found[1]:
            mended[found.start() : found.end()] = b"\\ufffd"
    return bytes(mended)


def _command(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    *,
    ext: dict[str, str],
    remark: str | None,
    language: int,
    body: bytes,
) -> Command:
    for number in (code, opaque, flag, version):
        if not INT32_MIN <= number <= INT32_MAX:  # the reply could not carry it
            raise ProtocolError(f"header number {number} is no int32")
    return Command(
        code=code,
        ext=ext,
        body=body,
        opaque=opaque,
        flag=flag,
        remark=remark,
        language=language,
        version=version,
        codec=Codec.JSON,
    )


def _text(raw: msgspec.Raw) -> str | None:
    """Return a string's value, null as None, and of any other value the JSON text itself."""
    data = bytes(raw)
    if data.startswith(b'"'):
        return _decode_text(data.decode("utf-8", "replace"))
    text = data.decode("utf-8", "replace")
    return None if text == "null" else text


def _integer(name: str, raw: msgspec.Raw) -> int:
    text = _text(raw)
    if text is None:
        return 0
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise ProtocolError(f"header field {name} is no int32: {text[:40]!r}")
    return int(text)
