"""Message properties: one string of names and values, in a record as on the wire."""

from collections.abc import Mapping
from typing import Final

NAME_SEPARATOR: Final = "\x01"  # between a name and its value
PROPERTY_SEPARATOR: Final = "\x02"  # after each value
PROPERTIES_BYTES_MAX: Final = 32_767  # the length travels as an int16


class Property:
    """Names of properties that brokers and clients give a meaning (MessageConst.java, 5.5.0)."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QID: Final = "REAL_QID"
    TRAN_MSG: Final = "TRAN_MSG"
    PGROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_GROUP: Final = "ORIGIN_GROUP"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    UNIQ_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
    TRANS_OFFSET: Final = "TRANS_OFFSET"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    PRIORITY: Final = "_SYS_MSG_PRIORITY_"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    DUP_INFO: Final = "DUP_INFO"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MSG_TYPE: Final = "MSG_TYPE"
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    LITE_TOPIC: Final = "__LITE_TOPIC"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_ROLL_LABEL: Final = "TIMER_ROLL_LABEL"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
    CRC32: Final = "__CRC32#"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"


PROPERTY_NAMES: Final = frozenset(
    name for word, name in vars(Property).items() if not word.startswith("_")
)
"""All of them: what is named otherwise is the user's own."""


def parse_properties(raw: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Read a property string; of a repeated name the last value counts.

    Never raises: a pair without name or value is skipped and bytes that are no UTF-8 become U+FFFD,
    as MessageDecoder.string2messageProperties does.
    """
    text = raw if isinstance(raw, str) else str(raw, "utf-8", "replace")
    pairs: dict[str, str] = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_SEPARATOR)
        if name and value:
            pairs[name] = value
    return pairs


def format_properties(properties: Mapping[str, str]) -> str:
    """Write a property string: name, \\x01, value, \\x02 for each pair, in the mapping's order.

    Raises ValueError for a name or value that contains one of the two separators: a reader would
    see other properties than were meant. Source: MessageDecoder.messageProperties2String.
    """
    text = join_properties(properties)
    count = len(properties)
    if text.count(NAME_SEPARATOR) != count or text.count(PROPERTY_SEPARATOR) != count:
        bad = [name for name, value in properties.items() if _has_separator(name + value)]
        raise ValueError(f"property {bad[0]!r} contains a separator (\\x01 or \\x02)")
    return text


def join_properties(properties: Mapping[str, str]) -> str:
    """Write properties that `parse_properties` has read, which can hold \\x01 in a value."""
    pieces: list[str] = []
    for name, value in properties.items():
        pieces += (name, NAME_SEPARATOR, value, PROPERTY_SEPARATOR)
    return "".join(pieces)


def find_property(raw: bytes | bytearray | memoryview, name: str) -> str | None:
    """Return one property of a raw property string without reading the others; None if absent."""
    data = bytes(raw)
    key = name.encode() + b"\x01"
    at = data.rfind(b"\x02" + key)
    if at >= 0:
        start = at + 1 + len(key)
    elif data.startswith(key):
        start = len(key)
    else:
        return None
    end = data.find(b"\x02", start)
    value = data[start:] if end < 0 else data[start:end]
    if not value:  # a pair without value does not count: an earlier one of that name may
        return parse_properties(data).get(name)
    return value.decode("utf-8", "replace")


def _has_separator(text: str) -> bool:
    return NAME_SEPARATOR in text or PROPERTY_SEPARATOR in text
