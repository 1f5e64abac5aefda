"""The options of `format("rocketmq")`: parsed, and refused, before any task starts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aerobee.spark.columns import BY_NAME, USUAL
from aerobee.spark.errors import OptionError
from aerobee.spark.selection import EVERYTHING, Selection

_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
PARTITION_BYTES_MIN = 64 << 10


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asks for, checked."""

    path: str
    columns: tuple[str, ...] = USUAL
    properties: str = "map"
    decompress: bool = False
    partition_bytes: int | None = None
    selection: Selection = EVERYTHING


def parse_options(given: Mapping[str, str]) -> Options:
    """The options of a query; names are compared without regard to case, as Spark does.

    Raises OptionError, which names the option, what is allowed, and what may have been meant.
    """
    values = {name.lower(): value for name, value in given.items()}
    for name in values:
        if name not in _PARSERS:
            spelled = sorted(spelling for spelling, _ in _PARSERS.values())
            raise OptionError(f"unknown option {_near(name, spelled)}")

    def take(name: str) -> Any:
        spelling, parse = _PARSERS[name.lower()]
        return parse(spelling, values[name.lower()]) if name.lower() in values else None

    if not values.get("path", "").strip():
        raise OptionError("option path is missing: name the folder of a broker's store")
    since, until = take("startingTimestamp"), take("endingTimestamp")
    if since is not None and until is not None and until <= since:
        raise OptionError(f"option endingTimestamp: {until} is not after startingTimestamp {since}")
    return Options(
        path=values["path"].strip(),
        columns=take("columns") or USUAL,
        properties=take("properties") or "map",
        decompress=bool(take("decompress")),
        partition_bytes=take("partitionBytes"),
        selection=Selection(take("subscribe"), since, until),
    )


def unknown_column(where: str, name: str) -> OptionError:
    """The refusal of a column that there is not."""
    return OptionError(f"{where}: unknown column {_near(name, list(BY_NAME))}")


def _near(name: str, allowed: Collection[str]) -> str:
    by_lower = {each.lower(): each for each in allowed}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"{name!r}{hint} (there are: {', '.join(allowed)})"


def _columns(option: str, value: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in value.split(",") if name.strip())
    if not names:
        raise OptionError(f"option {option}: {value!r} names no column, as in 'topic, body'")
    for at, name in enumerate(names):
        if name not in BY_NAME:
            raise unknown_column(f"option {option}", name)
        if name in names[:at]:
            raise OptionError(f"option {option}: column {name!r} stands there twice")
    return names


def _choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(option: str, value: str) -> str:
        if (word := value.strip().lower()) in allowed:
            return word
        near = difflib.get_close_matches(word, allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"option {option}: {value!r} is not one of {', '.join(allowed)}{hint}")

    return parse


def _flag(option: str, value: str) -> bool:
    return _choice("true", "false")(option, value) == "true"


def _size(option: str, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    size = int(found[1]) * _SIZE_UNITS[found[2].lower()] if found else 0
    if size < PARTITION_BYTES_MIN:
        raise OptionError(
            f"option {option}: {value!r} is no size of at least 64k; write bytes, or a number"
            " with k, m or g, as 256m"
        )
    return size


def _milliseconds(option: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value.strip()):
        raise OptionError(
            f"option {option}: {value!r} is no time in milliseconds since 1970-01-01 UTC"
        )
    return int(value)


def _topics(option: str, value: str) -> frozenset[str]:
    topics = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        raise OptionError(f"option {option}: {value!r} names no topic, as in 'orders,payments'")
    return topics


def _text(option: str, value: str) -> str:
    return value


_PARSERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    spelling.lower(): (spelling, parse)
    for spelling, parse in (
        ("path", _text),
        ("columns", _columns),
        ("properties", _choice("map", "binary")),
        ("decompress", _flag),
        ("partitionBytes", _size),
        ("subscribe", _topics),
        ("startingTimestamp", _milliseconds),
        ("endingTimestamp", _milliseconds),
    )
}
