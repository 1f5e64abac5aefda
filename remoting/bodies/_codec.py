"""How typed bodies become JSON and JSON becomes typed bodies, whatever language wrote it."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from aerobee.remoting import fastjson
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import language_name
from aerobee.remoting.errors import ProtocolError, RequestError
from aerobee.remoting.words import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    CONSUME_POP,
)


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of every body: snake_case here, camelCase on the wire, unknown keys ignored.

    Change one with `msgspec.structs.replace`.
    """


class QueueBody(Body, frozen=True, order=True, gc=False):
    """One queue of one broker; hashable, sorted by topic, broker and number."""

    topic: str
    broker_name: str
    queue_id: int


B = TypeVar("B", bound=Body)

ODD_KEYS_MAX: Final = 200_000  # unquoted keys of one body, which must not hold up other clients

_ENUMS: Final[dict[str, tuple[str, ...]]] = {  # C++ clients write the ordinal, Java the name
    "consumeType": (CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP),
    "messageModel": (BROADCASTING, CLUSTERING),
    "consumeFromWhere": (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
}


def decode_body(body_type: type[B], data: bytes | memoryview) -> B:
    """Read a body of the given type.

    It takes what real clients send: fastjson's odd keys, null for a missing value, numbers in
    quotes, enums as ordinals. Raises RequestError (SYSTEM_ERROR) naming the type and the place.
    """
    data = bytes(data)
    try:
        fastjson.check_size(data)
        try:
            body: B = _decoder(body_type).decode(data)
        except (ValueError, RecursionError):
            loose = fastjson.loads(data, odd_keys_max=ODD_KEYS_MAX)
            body = msgspec.convert(_tidy(loose), body_type, strict=False)
        return body
    except (ProtocolError, ValueError, RecursionError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"body is no {body_type.__name__}: {error}"
        ) from None


def encode_body(body: Body, *, strict: bool = True) -> bytes:
    """Write a body; what is None is left out, as Java's writers do.

    Not `strict` writes integer and object keys as fastjson does: a Java reader needs that for
    object keys (tables by MessageQueue) and takes both for integers.

    A strict text in which nothing is None but fields of the body itself is msgspec's own: ten
    thousand topics hold a server for less than a millisecond, for 15 where each passes Python.
    """
    if strict:
        with suppress(TypeError):  # an object as a key
            text = _without_nulls(body, msgspec.json.encode(body))
            if b"null" not in text:
                return text
    return fastjson.dumps(plain(body), strict=strict)


def _without_nulls(body: Body, text: bytes) -> bytes:
    """Leave out what is None of the body itself, where there is no other null."""
    if b"null" not in text:
        return text
    names = zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True)
    empty = [key for name, key in names if getattr(body, name) is None]
    if text.count(b"null") == len(empty):
        for key in empty:
            text = text.replace(b',"%b":null' % key.encode(), b"", 1)
    return text


def plain(value: Any) -> Any:
    """Turn bodies into mappings with their names on the wire, without what is None."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {
            key: plain(item) for name, key in names if (item := getattr(value, name)) is not None
        }
    if isinstance(value, Mapping):
        return {_plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def _plain_key(key: Any) -> Any:
    if isinstance(key, msgspec.Struct):
        return fastjson.JsonObjectKey(plain(key))
    return key


@cache
def _decoder(body_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type, strict=False)


def _tidy(value: Any) -> Any:
    """Drop nulls and name enums that came as ordinals."""
    if isinstance(value, dict):
        tidy = {}
        for key, item in value.items():
            if item is None:
                continue
            if type(item) is int and isinstance(key, str):
                item = _enum_name(key, item)
            tidy[key] = _tidy(item)
        return tidy
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return value


def _enum_name(key: str, ordinal: int) -> int | str:
    if key == "language":
        return language_name(ordinal)
    names = _ENUMS.get(key, ())
    return names[ordinal] if 0 <= ordinal < len(names) else ordinal
