"""Topic attributes such as `message.type`: which there are, and how a request edits them.

An edit is written `+message.type=FIFO,-reserve.time` (AttributeParser, AttributeUtil,
TopicAttributes). Whatever is wrong with one is answered with SYSTEM_ERROR and RocketMQ's words.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

MESSAGE_TYPE: Final = "message.type"
DEDUP_SECONDS: Final = "aerobee.dedup.seconds"
DEDUP_SECONDS_MAX: Final = 86_400
RETENTION_SECONDS: Final = "aerobee.retention.seconds"
"""How long a topic shows its messages, where that is less than the log keeps them; ours."""
RETENTION_SECONDS_MAX: Final = 10 * 365 * 86_400
QUEUE_TYPE: Final = "queue.type"
BATCH_QUEUE: Final = "BatchCQ"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPACTION: Final = "COMPACTION"


class _Attribute(msgspec.Struct, frozen=True):
    changeable: bool
    check: Callable[[str], str | None]  # what is wrong with a value


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        return None if value in allowed else f"value is not in set: [{', '.join(allowed)}]"

    return check


def _dedup_seconds(value: str) -> str | None:
    digits = value.isascii() and value.isdecimal() and len(value) <= 9
    if digits and int(value) <= DEDUP_SECONDS_MAX:
        return None
    return f"value is not in range(0, {DEDUP_SECONDS_MAX})"


def _reserve_time(value: str) -> str | None:
    return (
        "Update topic reserveTime not supported"  # it belongs to tiered stores (TopicConfigManager)
    )


def _in_range(least: int, most: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        fits = value.isascii() and value.isdecimal() and len(value) <= 18
        if fits and least <= int(value) <= most:
            return None
        return f"value is not in range({least}, {most})"

    return check


TOPIC_ATTRIBUTES: Final[Mapping[str, _Attribute]] = {
    QUEUE_TYPE: _Attribute(False, _one_of("BatchCQ", "SimpleCQ")),
    CLEANUP_POLICY: _Attribute(False, _one_of("DELETE", COMPACTION)),
    MESSAGE_TYPE: _Attribute(
        True,
        _one_of(
            "UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL"
        ),  # in the order in which Java's set prints them
    ),
    "reserve.time": _Attribute(True, _reserve_time),
    DEDUP_SECONDS: _Attribute(True, _dedup_seconds),
    RETENTION_SECONDS: _Attribute(True, _in_range(1, RETENTION_SECONDS_MAX)),
}


def dedup_window_ms(attributes: Mapping[str, str] | None) -> int:
    """Return for how long (ms) a topic stores a retry once, 0 for one that does not.

    What another program has written there and makes no sense counts as 0.
    """
    value = (attributes or {}).get(DEDUP_SECONDS, "0")
    return 1000 * int(value) if _dedup_seconds(value) is None else 0


def parse_edits(text: str | None) -> dict[str, str]:
    """Read `+key=value,-key` into {"+key": "value", "-key": ""}; the signs stay on the keys."""
    edits: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part:
            continue
        key, equals, value = part.partition("=")
        if equals and "+" not in key:
            raise _refused(f"add/alter attribute format is wrong: {key}")
        if not equals and "-" not in key:
            raise _refused(f"delete attribute format is wrong: {key}")
        if key in edits:
            raise _refused(f"key duplication: {key}")
        edits[key] = value
    return edits


def apply_edits(
    current: Mapping[str, str] | None,
    edits: Mapping[str, str] | None,
    known: Mapping[str, _Attribute] = TOPIC_ATTRIBUTES,
) -> dict[str, str]:
    """Return the attributes after the edits; `current` is None for a topic that is being made."""
    result = dict(current or {})
    seen: set[str] = set()
    for signed, value in (edits or {}).items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _refused("kv string format wrong.")
        if key in seen:
            raise _refused(f"alter duplication key. key: {key}")
        seen.add(key)
        if current is None and sign != "+":
            raise _refused(f"only add attribute is supported while creating topic. key: {key}")
        if sign not in ("+", "-"):
            raise _refused(f"wrong format key: {key}")
        if sign == "-" and key not in result:
            raise _refused(f"attempt to delete a nonexistent key: {key}")
        attribute = known.get(key)
        if attribute is None:
            raise _refused(f"unsupported key: {key}")
        if current is not None and not attribute.changeable:
            raise _refused(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del result[key]
        elif problem := attribute.check(value):
            raise _refused(problem)
        else:
            result[key] = value
    if result.get(CLEANUP_POLICY) == COMPACTION and RETENTION_SECONDS in result:
        raise _refused(f"{RETENTION_SECONDS} is not for topics that keep the latest of each key")
    window_ms = dedup_window_ms(result)
    if window_ms and _hides_within(window_ms, result.get(RETENTION_SECONDS)):
        raise _refused(
            f"{DEDUP_SECONDS} must be less than {RETENTION_SECONDS}: of what nobody can read any"
            " more nothing is known"
        )
    if result.get(QUEUE_TYPE) == BATCH_QUEUE and result.get(CLEANUP_POLICY) == COMPACTION:
        raise _refused(f"{QUEUE_TYPE}={BATCH_QUEUE} and {CLEANUP_POLICY}={COMPACTION} exclude each"
                       " other: a batch has no key")  # fmt: skip
    return result


def _hides_within(window_ms: int, retention_seconds: str | None) -> bool:
    check = TOPIC_ATTRIBUTES[RETENTION_SECONDS].check
    if retention_seconds is None or check(retention_seconds) is not None:
        return False
    return window_ms >= 1000 * int(retention_seconds)


def is_batched(topic: TopicConfig) -> bool:
    """Whether a topic stores a batch as one record (QueueTypeUtils)."""
    return topic.attributes.get(QUEUE_TYPE) == BATCH_QUEUE


def is_compacted(topic: TopicConfig) -> bool:
    """Whether a topic keeps the latest message of each key, however old (CleanupPolicyUtils)."""
    return topic.attributes.get(CLEANUP_POLICY) == COMPACTION


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, remark)
