"""Bodies as values: JSON and MessagePack of plain data, msgspec's structs and pydantic's models."""

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

import msgspec

from aerobee.client.errors import BadBody, InvalidMessage

if TYPE_CHECKING:
    from aerobee.client.message import MessageQueue

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


class Decodable:
    """A message whose body can be read as a value."""

    __slots__ = ()

    body: bytes
    queue: "MessageQueue"
    queue_offset: int

    @overload
    def decode(self, kind: type[T], codec: BodyCodec = JSON) -> T: ...
    @overload
    def decode(self, kind: Any = Any, codec: BodyCodec = JSON) -> Any: ...
    def decode(self, kind: Any = Any, codec: BodyCodec = JSON) -> Any:
        """Return the value of the body: JSON, unless another codec is given.

            order = message.decode(Order)  # a msgspec.Struct, dataclass or pydantic model
            anything = message.decode()    # dicts, lists, texts, numbers

        Raises BadBody, a ClientError and a ValueError, for what is no `kind`; a handler that lets
        it pass gets the message again, at last as a dead letter.
        """
        try:
            return codec.decode(self.body, kind)
        except _UNREADABLE as error:
            topic, broker, queue_id = self.queue
            place = f"{self.queue_offset} of {topic}, queue {queue_id} of {broker}"
            raise BadBody(getattr(kind, "__name__", str(kind)), place, error) from error

    def json(self) -> Any:
        """Return the JSON of the body as dicts, lists, texts and numbers; raises BadBody."""
        return self.decode()


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
