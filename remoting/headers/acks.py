"""Acknowledgements of sends as nearly all of them look, decoded at once from their bytes."""

from typing import Final

import msgspec


class AckFields(msgspec.Struct, gc=False):
    """Where a message went (SendMessageResponseHeader.java); numbers travel as text."""

    msgId: str
    queueId: int
    queueOffset: int
    transactionId: str | None = None
    batchUniqId: str | None = None
    recallHandle: str | None = None
    MSG_REGION: str | None = None
    TRACE_ON: str | None = None


class Ack(msgspec.Struct, gc=False):
    """A reply to a send; `code` is a ResponseCode, `flag` has FLAG_RESPONSE set."""

    extFields: AckFields
    opaque: int
    code: int
    flag: int = 0


decode_ack: Final = msgspec.json.Decoder(Ack, strict=False).decode
"""Reads a JSON header; raises MsgspecError, UnicodeError or RecursionError for what is no Ack."""
