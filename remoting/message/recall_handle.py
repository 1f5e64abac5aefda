"""The handle by which a message that waits is taken back (RecallMessageHandle.java).

Url-safe base64, with padding, of `v1 topic broker time key`; the time is TIMER_OUT_MS + 1.
"""

import base64
from typing import Final

import msgspec

from aerobee.remoting.message.properties import NAME_SEPARATOR, PROPERTY_SEPARATOR

VERSION: Final = "v1"
PARTS_MIN: Final = 5


class RecallHandle(msgspec.Struct, frozen=True):
    """Which message it is: its topic and unique key, the broker that has it, a time in its slot."""

    topic: str
    broker_name: str
    time_ms: str
    key: str


def encode_recall_handle(topic: str, broker_name: str, time_ms: int, key: str) -> str:
    """Return the handle of a message."""
    text = f"{VERSION} {topic} {broker_name} {time_ms} {key}"
    return base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Read a handle, of which the padding may be missing; ValueError for what is none.

    The key becomes a property: it is not empty, and has no bytes that separate properties.
    """
    raw = text.encode("ascii")
    padded = raw + b"=" * (-len(raw) % 4) if b"=" not in raw else raw
    parts = base64.b64decode(padded, b"-_", validate=True).decode("utf-8", "replace").split(" ")
    if len(parts) < PARTS_MIN or parts[0] != VERSION:
        raise ValueError(f"no handle of version {VERSION}")
    key = parts[PARTS_MIN - 1]
    if not key or NAME_SEPARATOR in key or PROPERTY_SEPARATOR in key:
        raise ValueError(f"no key of a message: {key[:40]!r}")
    return RecallHandle(*parts[1:PARTS_MIN])
