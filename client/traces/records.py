"""RocketMQ's trace records: fields between 0x01, each record ended by 0x02; pure.

A body of the trace topic holds several (TraceDataEncoder.java). What is not there is written
`null`, a truth value `true` or `false`.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from aerobee.client.errors import ClientError

log = logging.getLogger(__name__)

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
NULL: Final = "null"

NORMAL, TRANS_HALF, TRANS_COMMIT, DELAY, ORDER = range(5)
"""Types of messages (MessageType.java)."""
SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL, FAILED = range(5)
"""How handling a message ended (ConsumeReturnType.java)."""

_BLANKS: Final = str.maketrans({FIELD_END: " ", RECORD_END: " "})


class BadTrace(ClientError):
    """A record that is no trace of RocketMQ's, or of a version that is not known."""


class PubTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A message was sent, or a batch, its ids and offset ids joined by commas.

    Times are milliseconds since 1970, `cost_ms` is how long the send took, `store_host` the
    broker's address, `client_host` what old clients add of themselves.
    """

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_bytes: int
    cost_ms: int
    message_type: int
    offset_message_id: str | None
    succeeded: bool
    client_host: str | None = None


class SubBeforeTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer is about to handle a message; `request_id` is that of its SubAfterTrace."""

    timestamp_ms: int
    region: str | None
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str | None


class SubAfterTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer has handled a message, or failed; `cost_ms` is its share of the batch's time.

    Without `timestamp_ms` and `group` it is written as for the channel CLOUD.
    """

    request_id: str
    message_id: str
    cost_ms: int
    succeeded: bool
    keys: str | None
    outcome: int = SUCCESS
    timestamp_ms: int | None = None
    group: str | None = None


class EndTransactionTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A producer has said what becomes of a half message; `state` is COMMIT_MESSAGE or another."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str
    message_type: int
    transaction_id: str | None
    state: str
    from_check: bool


class RecallTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A producer has called back a message that was not due yet."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    succeeded: bool


Trace: TypeAlias = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace | RecallTrace

_WORDS: Final = {
    PubTrace: "Pub",
    SubBeforeTrace: "SubBefore",
    SubAfterTrace: "SubAfter",
    EndTransactionTrace: "EndTransaction",
    RecallTrace: "Recall",
}


def encode_trace(trace: Trace) -> str:
    """Write one record, its end included; a separator within a field becomes a blank."""
    fields: list[object] = [_WORDS[type(trace)]]
    match trace:
        case PubTrace():
            fields += (
                trace.timestamp_ms, trace.region, trace.group, trace.topic, trace.message_id,
                trace.tags, trace.keys, trace.store_host, trace.body_bytes, trace.cost_ms,
                trace.message_type, trace.offset_message_id, trace.succeeded,
            )  # fmt: skip
            if trace.client_host is not None:
                fields.append(trace.client_host)
        case SubBeforeTrace():
            fields += (
                trace.timestamp_ms, trace.region, trace.group, trace.request_id,
                trace.message_id, trace.retry_times, trace.keys,
            )  # fmt: skip
        case SubAfterTrace():
            fields += (
                trace.request_id, trace.message_id, trace.cost_ms, trace.succeeded, trace.keys,
                trace.outcome,
            )  # fmt: skip
            if trace.timestamp_ms is None:
                fields.append("")
            else:
                fields += (trace.timestamp_ms, trace.group)
        case EndTransactionTrace():
            fields += (
                trace.timestamp_ms, trace.region, trace.group, trace.topic, trace.message_id,
                trace.tags, trace.keys, trace.store_host, trace.message_type,
                trace.transaction_id, trace.state, trace.from_check,
            )  # fmt: skip
        case RecallTrace():
            fields += (
                trace.timestamp_ms, trace.region, trace.group, trace.topic, trace.message_id,
                trace.succeeded,
            )  # fmt: skip
    return FIELD_END.join(map(_text, fields)) + RECORD_END


def decode_traces(body: bytes) -> list[Trace]:
    """Read the records of a trace message, those of all versions of RocketMQ's clients.

    One that cannot be read is left out, with a warning: the others are sound.
    """
    traces: list[Trace] = []
    for text in body.decode("utf-8", "replace").split(RECORD_END):
        if not text:
            continue
        try:
            traces.append(decode_trace(text))
        except BadTrace as error:
            log.warning("trace record left out: %s", error)
    return traces


def decode_trace(text: str) -> Trace:
    """Read one record without its end; raises BadTrace."""
    word, *fields = text.split(FIELD_END)
    read = _READERS.get(word)
    if read is None:
        raise BadTrace(f"no such kind of trace: {text!r:.100}")
    try:
        return read(fields)
    except (IndexError, ValueError) as error:
        raise BadTrace(f"{text!r:.200}: {error}") from None


def _read_pub(fields: list[str]) -> PubTrace:
    said = fields[11:]
    return PubTrace(
        timestamp_ms=int(fields[0]), region=fields[1], group=fields[2], topic=fields[3],
        message_id=fields[4], tags=_known(fields[5]), keys=_known(fields[6]),
        store_host=fields[7], body_bytes=int(fields[8]), cost_ms=int(fields[9]),
        message_type=int(fields[10]),
        offset_message_id=_known(said[0]) if len(said) > 1 else None,
        succeeded=_truth(said[min(len(said) - 1, 1)]),
        client_host=_known(said[2]) if len(said) > 2 else None,
    )  # fmt: skip


def _read_sub_before(fields: list[str]) -> SubBeforeTrace:
    return SubBeforeTrace(
        timestamp_ms=int(fields[0]), region=_known(fields[1]), group=fields[2],
        request_id=fields[3], message_id=fields[4], retry_times=int(fields[5]),
        keys=_known(fields[6]),
    )  # fmt: skip


def _read_sub_after(fields: list[str]) -> SubAfterTrace:
    more = [each for each in fields[5:] if each]  # in order: outcome, time, group
    return SubAfterTrace(
        request_id=fields[0], message_id=fields[1], cost_ms=int(fields[2]),
        succeeded=_truth(fields[3]), keys=_known(fields[4]),
        outcome=int(more[0]) if more else SUCCESS,
        timestamp_ms=int(more[1]) if len(more) > 1 else None,
        group=more[2] if len(more) > 2 else None,
    )  # fmt: skip


def _read_end(fields: list[str]) -> EndTransactionTrace:
    return EndTransactionTrace(
        timestamp_ms=int(fields[0]), region=fields[1], group=fields[2], topic=fields[3],
        message_id=fields[4], tags=_known(fields[5]), keys=_known(fields[6]),
        store_host=fields[7], message_type=int(fields[8]), transaction_id=_known(fields[9]),
        state=fields[10], from_check=_truth(fields[11]),
    )  # fmt: skip


def _read_recall(fields: list[str]) -> RecallTrace:
    return RecallTrace(
        timestamp_ms=int(fields[0]), region=fields[1], group=fields[2], topic=fields[3],
        message_id=fields[4], succeeded=_truth(fields[5]),
    )  # fmt: skip


_READERS: Final[dict[str, Callable[[list[str]], Trace]]] = {
    _WORDS[PubTrace]: _read_pub,
    _WORDS[SubBeforeTrace]: _read_sub_before,
    _WORDS[SubAfterTrace]: _read_sub_after,
    _WORDS[EndTransactionTrace]: _read_end,
    _WORDS[RecallTrace]: _read_recall,
}


def without_separators(text: str) -> str:
    """Return a text with blanks for the signs that end fields and records."""
    return text.translate(_BLANKS)


def _text(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return without_separators(str(value))


def _known(text: str) -> str | None:
    return None if text == NULL or not text else text


def _truth(text: str) -> bool:
    return text.lower() == "true"  # Boolean.parseBoolean
