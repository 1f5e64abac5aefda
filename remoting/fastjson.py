"""JSON as RocketMQ writes it: standard, except that map keys may be bare numbers or whole objects.

    {"brokerAddrs":{0:"10.0.0.1:10911"}}
    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"maxOffset":7}}}

Both come from fastjson (1.2.83 up to RocketMQ 5.3, fastjson2 since), on the wire and in files.
Reading turns such text into standard JSON in one pass and leaves the rest to msgspec; the pass is
linear in time and memory and uses no recursion.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from aerobee.remoting.errors import ProtocolError

VALUES_MAX: Final = 500_000  # objects and arrays in one text: "[[],[]," costs 20 times its length
ODD_KEYS_MAX: Final = 2_000_000  # keys of the two odd kinds in one text, about 1 us each

Scalar = str | int | float | bool | None

_OBJECT_MARK: Final = "\0"  # begins the string that stands for an object key until it is one again

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BARE: Final = rb"(?:-?\d++(?:\.\d++)?|true|false|null)"
_FLAT_OBJECT: Final = rb'\{[^{}"]*+(?:' + _STRING + rb'[^{}"]*+)*+\}'
_COLON: Final = rb"(?=\s*+:)"

_ORDINARY: Final = re.compile(  # as much text as there is up to the next odd key
    rb'(?:[^"{,]++|' + _STRING + rb"|(?!" + _FLAT_OBJECT + _COLON + rb")"
    rb"[{,](?!\s*+" + _BARE + _COLON + rb"))*+",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(rb"([{,]\s*+)(" + _BARE + rb")" + _COLON)
_OBJECT_KEY: Final = re.compile(_FLAT_OBJECT + _COLON, re.DOTALL)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_decode_key: Final = msgspec.json.Decoder(dict[str, Scalar]).decode


class JsonObjectKey(Mapping[str, Scalar]):
    """An object that is a key of another one: a mapping that can be hashed and never changes."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Scalar]) -> None:
        self._items = tuple(sorted(items.items()))

    def __getitem__(self, name: str) -> Scalar:
        """Return the value of one field."""
        for key, value in self._items:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the field names, sorted."""
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        """Count the fields."""
        return len(self._items)

    def __hash__(self) -> int:
        """Hash the fields and their values."""
        return hash(self._items)

    def __repr__(self) -> str:
        """Show the fields."""
        return f"JsonObjectKey({dict(self._items)!r})"


def loads(data: bytes, *, odd_keys_max: int = ODD_KEYS_MAX) -> Any:
    """Read JSON, standard or with fastjson's keys; the latter come out as JsonObjectKey or as str.

    A bare number or literal that is a key comes out as its text ("0"), as if it had been quoted.
    Raises ProtocolError for anything else, for more than VALUES_MAX objects and arrays or
    `odd_keys_max` keys of the two odd kinds, and for nesting deeper than Python's recursion limit.
    """
    check_size(data)
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass  # the tolerant way says what is wrong, if anything is
    text = standardise(data, odd_keys_max=odd_keys_max)
    try:
        value = _decode(text)
        return _restore_keys(value) if _OBJECT_KEY.search(data) else value
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"no JSON: {error}") from None


def check_size(data: bytes) -> None:
    """Raise ProtocolError for text whose values would take memory many times its length."""
    count = data.count(b"{") + data.count(b"[")
    if count > VALUES_MAX:
        raise ProtocolError(f"JSON with {count} objects and arrays, limit {VALUES_MAX}")


def standardise(data: bytes, *, odd_keys_max: int = ODD_KEYS_MAX) -> bytes:
    """Quote the keys that standard JSON would refuse and leave everything else as it is.

    An object key becomes a string, marked so that `loads` can tell it from an ordinary one.
    """
    text = bytearray()  # a list of pieces would take ten times as much memory
    at = 0
    for _ in range(odd_keys_max):
        ordinary = _ORDINARY.match(data, at)
        assert ordinary is not None  # it may match nothing, but it always matches
        text += ordinary.group()
        at = ordinary.end()
        if bare := _BARE_KEY.match(data, at):
            text += b'%s"%s"' % (bare[1], bare[2])
            at = bare.end()
        elif whole := _OBJECT_KEY.match(data, at):
            text += _encode(_OBJECT_MARK + whole.group().decode("utf-8", "replace"))
            at = whole.end()
        else:  # the end, or a quote that is never closed: msgspec will say so
            text += data[at:]
            return bytes(text)
    raise ProtocolError(f"JSON with more than {odd_keys_max} unquoted keys")


def dumps(value: Any, *, strict: bool) -> bytes:
    """Write JSON; not `strict` means with fastjson's keys, which Java's readers expect of objects.

    Keys may be str, int or a mapping (JsonObjectKey). Strict JSON has only string keys, so there
    an integer is quoted and an object becomes a string that holds its text.
    """
    pieces: list[bytes] = []
    _write(value, pieces, strict)
    return b"".join(pieces)


def _write(value: Any, pieces: list[bytes], strict: bool) -> None:
    if isinstance(value, Mapping):
        _write_mapping(value, pieces, strict)
    elif isinstance(value, list | tuple | set | frozenset):
        pieces.append(b"[")
        for index, item in enumerate(value):
            if index:
                pieces.append(b",")
            _write(item, pieces, strict)
        pieces.append(b"]")
    else:
        pieces.append(_encode(value))


def _write_mapping(value: Mapping[Any, Any], pieces: list[bytes], strict: bool) -> None:
    pieces.append(b"{")
    separator = b""
    for key, item in value.items():
        if isinstance(key, str):
            text = _encode(key)
        elif isinstance(key, Mapping):
            text = _encode(dict(key))
            if strict:
                text = _encode(text.decode())
        else:
            text = _encode(key)
            if strict:
                text = b'"' + text + b'"'
        pieces += (separator, text, b":")
        _write(item, pieces, strict)
        separator = b","
    pieces.append(b"}")


def _restore_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_restore_key(key): _restore_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_keys(item) for item in value]
    return value


def _restore_key(key: str) -> str | JsonObjectKey:
    if not key.startswith(_OBJECT_MARK):
        return key
    return JsonObjectKey(_decode_key(key[len(_OBJECT_MARK) :]))
