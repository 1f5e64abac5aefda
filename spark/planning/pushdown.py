"""Filters that Spark hands over, as limits of what is read.

Filters on a topic, a queue, an offset, a position or the store's time are kept to exactly. One on
tags spares reading by the hashes in the ConsumeQueues, one on keys by those in the index; as hashes
collide, Spark filters again. Spark keeps every other filter to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from aerobee.remoting.message.tags import java_string_hash
from aerobee.spark.records.selection import Limits, Selection

_NUMBERS: Final = {
    "queue_id": "queue_ids",
    "queue_offset": "queue_offsets",
    "commit_log_offset": "positions",
}
_NEVER_NULL: Final = frozenset({*_NUMBERS, "topic", "store_timestamp"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def push(selection: Selection, filters: Iterable[Filter]) -> tuple[Selection, list[Filter]]:
    """The selection narrowed by the filters, and the filters that Spark must apply itself."""
    left = []
    for each in filters:
        narrowed, exact = _narrowed(selection, each)
        selection = narrowed
        if not exact:
            left.append(each)
    return selection, left


def _narrowed(selection: Selection, wanted: Filter) -> tuple[Selection, bool]:
    path = getattr(wanted, "attribute", None)
    if path is None or len(path) != 1:
        return selection, False
    (column,) = path
    if isinstance(wanted, IsNotNull):
        return selection, column in _NEVER_NULL
    values = _values(wanted)
    if column == "topic" and _all(values, str):
        topics = frozenset(values if selection.topics is None else selection.topics & set(values))
        return replace(selection, topics=topics), True
    if column == "tags" and _all(values, str):
        hashes = frozenset(java_string_hash(value) for value in values)
        if selection.tag_hashes is not None:
            hashes &= selection.tag_hashes
        return replace(selection, tag_hashes=hashes), False
    if column == "keys" and _all(values, str):
        keys = frozenset(values if selection.keys is None else selection.keys & set(values))
        return replace(selection, keys=keys), False
    if column in _NUMBERS and (limits := _limits(wanted)) is not None:
        name = _NUMBERS[column]
        return replace(selection, **{name: getattr(selection, name).within(limits)}), True
    if column == "store_timestamp" and (limits := _times(wanted)) is not None:
        both = Limits(selection.since_ms, selection.until_ms).within(limits)
        return replace(selection, since_ms=both.low, until_ms=both.high), True
    return selection, False


def _values(wanted: Filter) -> list[Any]:
    if isinstance(wanted, EqualTo):
        return [wanted.value]
    return list(wanted.value) if isinstance(wanted, In) else []


def _all(values: list[Any], kind: type) -> bool:
    return bool(values) and all(type(value) is kind for value in values)


def _limits(wanted: Filter) -> Limits | None:
    """The whole numbers that pass a filter; None where it is of another kind."""
    if isinstance(wanted, EqualTo | In):
        values = _values(wanted)
        return Limits(values=frozenset(values)) if _all(values, int) else None
    value = getattr(wanted, "value", None)
    if type(value) is not int:
        return None
    if isinstance(wanted, GreaterThan):
        return Limits(low=value + 1)
    if isinstance(wanted, GreaterThanOrEqual):
        return Limits(low=value)
    if isinstance(wanted, LessThan):
        return Limits(high=value)
    return Limits(high=value + 1) if isinstance(wanted, LessThanOrEqual) else None


def _times(wanted: Filter) -> Limits | None:
    """The store timestamps (ms) that pass a filter with a number of ms, or with a moment."""
    value = getattr(wanted, "value", None)
    if type(value) is int and isinstance(wanted, EqualTo):
        return Limits(value, value + 1)
    if type(value) is int and not isinstance(wanted, In):
        return _limits(wanted)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    micros = (value - _EPOCH) // _MICROSECOND
    floor, ceiling = micros // 1000, -(-micros // 1000)
    if isinstance(wanted, EqualTo):
        return Limits(floor, floor + 1) if floor == ceiling else Limits(0, 0)
    if isinstance(wanted, GreaterThan):
        return Limits(low=floor + 1)
    if isinstance(wanted, GreaterThanOrEqual):
        return Limits(low=ceiling)
    if isinstance(wanted, LessThan):
        return Limits(high=ceiling)
    return Limits(high=floor + 1) if isinstance(wanted, LessThanOrEqual) else None
