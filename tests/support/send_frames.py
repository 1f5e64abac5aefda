"""Frames of sends, made from parts that may be wrong."""

import json
import struct
from typing import Any


def frame(header: bytes, body: bytes, lie: int = 0, codec: int = 0) -> bytes:
    """Join header and body; `lie` is what the header's length is wrong by."""
    word = codec << 24 | max(0, len(header) + lie)
    return struct.pack(">II", 4 + len(header) + len(body), word) + header + body


def header(fields: dict[str, Any], **outer: Any) -> dict[str, Any]:
    """Return a send's header as a value, fields in the order of the Java client."""
    return {
        "code": 310,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": 7,
        "serializeTypeCurrentRPC": "JSON",
        "version": 513,
        **outer,
    }


def compact(value: Any, *, ascii_only: bool = True) -> bytes:
    """Write JSON as clients do: no white space."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)
    return text.encode("utf-8", "surrogatepass")
