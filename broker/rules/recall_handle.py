"""The handle by which a message that waits is taken back (RecallMessageHandle.java).

Url-safe base64, with padding, of `v1 topic broker time key`; the time is TIMER_OUT_MS + 1.
"""

import base64
import binascii

import msgspec

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

VERSION = "v1"


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


def decode_recall_handle(text: str | None) -> RecallHandle:
    """Read a handle; raises RequestError (ILLEGAL_OPERATION) for what is none."""
    try:
        raw = (text or "").encode("ascii")
        padded = raw + b"=" * (-len(raw) % 4) if b"=" not in raw else raw
        items = base64.b64decode(padded, b"-_", validate=True).decode("utf-8", "replace").split(" ")
    except (ValueError, binascii.Error):
        items = []
    if len(items) < 5 or items[0] != VERSION:
        raise RequestError(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
    return RecallHandle(*items[1:5])
