"""Typed headers to and from the string map that travels (`extFields`)."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of every typed header: snake_case here, camelCase on the wire, unknown keys ignored.

    Fields without a default are those that RocketMQ marks @CFNotNull: a request that lacks one is
    refused.
    """


H = TypeVar("H", bound=Header)


def decode_header(header_type: type[H], ext: Mapping[str, str]) -> H:
    """Read a typed header from `ext`; numbers and booleans travel as text.

    Raises RequestError (SYSTEM_ERROR) naming the field that is missing or malformed, as
    RemotingCommand.decodeCommandCustomHeader does.
    """
    try:
        return msgspec.convert(ext, header_type, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{header_type.__name__}: {error}") from None


def encode_header(header: Header) -> dict[str, str]:
    """Write a typed header as strings: booleans in lower case, None left out."""
    fields: dict[str, str] = {}
    for name, key in zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True):
        value = getattr(header, name)
        if value is None:
            continue
        if value is True or value is False:
            fields[key] = "true" if value else "false"
        else:
            fields[key] = str(value)
    return fields
