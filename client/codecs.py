"""Bodies as values: JSON and MessagePack of plain data, msgspec's structs and pydantic's models."""

from typing import Any, Final, Protocol, TypeVar

import msgspec

from aerobee.client.errors import BadBody, InvalidMessage

T = TypeVar("T")

_UNREADABLE: Final = (ValueError, TypeError, RecursionError, msgspec.MsgspecError)


class BodyCodec(Protocol):
    """Writes values as bodies, and reads them again: JSON, MSGPACK, or your own.

        class Text:
            def encode(self, value: object) -> bytes:
                return str(value).encode()

            def decode(self, body: bytes, kind: type[T]) -> T:
                return kind(body.decode())

        await producer.send(Message("orders", Text().encode(42)))
        number = message.decode(int, Text())  # of a message that was received

    What `encode` raises reaches the caller as it is; a ValueError or TypeError of `decode` becomes
    a BadBody, which names the message.
    """

    def encode(self, value: object) -> bytes:
        """Return the body of a value."""
        ...

    def decode(self, body: bytes, kind: type[T]) -> T:
        """Return the value of a body, a `kind`; raises ValueError or TypeError for what is none."""
        ...


class JsonCodec:
    """JSON (RFC 8259) in UTF-8: of plain data, dataclasses, msgspec.Struct and pydantic models.

        JSON.encode({"order": 7})           # b'{"order":7}'
        JSON.decode(b'{"order":7}', dict)   # {'order': 7}

    Datetimes are ISO 8601, bytes are base64, decimals, UUIDs and enums as msgspec writes them.
    """

    def encode(self, value: object) -> bytes:
        """Return the JSON of a value; raises InvalidMessage for what has none."""
        try:
            if hasattr(value, "model_dump_json"):  # pydantic's own writer knows its aliases
                return str(value.model_dump_json()).encode()
            return msgspec.json.encode(value, enc_hook=_dump)
        except _UNREADABLE as error:
            raise InvalidMessage(f"a {type(value).__name__} cannot be JSON: {error}") from error

    def decode(self, body: bytes, kind: type[T]) -> T:
        """Return the value of some JSON; raises ValueError and its kin for what is no `kind`."""
        if (validate := getattr(kind, "model_validate_json", None)) is not None:
            made: T = validate(body)
            return made
        return msgspec.json.decode(body, type=kind, dec_hook=_load)


class MsgpackCodec:
    """MessagePack of what JsonCodec takes, in about two thirds of the bytes.

        MSGPACK.encode({"order": 7})  # b'\\x81\\xa5order\\x07'
        MSGPACK.decode(MSGPACK.encode({"order": 7}), dict)

    Datetimes and bytes are MessagePack's own.
    """

    def encode(self, value: object) -> bytes:
        """Return the MessagePack of a value; raises InvalidMessage for what has none."""
        try:
            return msgspec.msgpack.encode(value, enc_hook=_dump)
        except _UNREADABLE as error:
            text = f"a {type(value).__name__} cannot be MessagePack: {error}"
            raise InvalidMessage(text) from error

    def decode(self, body: bytes, kind: type[T]) -> T:
        """Return the value of some MessagePack; raises ValueError and its kin for no `kind`."""
        return msgspec.msgpack.decode(body, type=kind, dec_hook=_load)


JSON: Final = JsonCodec()
MSGPACK: Final = MsgpackCodec()


def decoded(codec: BodyCodec, body: bytes, kind: Any, place: str) -> Any:
    """Return the value of a body of the message at `place`; raises BadBody where it is none."""
    try:
        return codec.decode(body, kind)
    except _UNREADABLE as error:
        name = getattr(kind, "__name__", str(kind))
        if kind is Any:  # any value would do, but there is none
            name = type(codec).__name__.removesuffix("Codec").upper()
        raise BadBody(name, place, error) from error


def _dump(value: Any) -> object:
    """Return plain data for what msgspec does not know: a pydantic model."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"no plain data, dataclass, msgspec.Struct or pydantic model: {value!r:.80}")


def _load(kind: Any, data: object) -> object:
    """Return what msgspec does not know, of plain data: a pydantic model."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(data)
    raise TypeError(f"{kind!r} is no plain data, dataclass, msgspec.Struct or pydantic model")
