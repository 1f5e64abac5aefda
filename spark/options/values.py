"""How the values of options are read, each with a refusal that says what is allowed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection

from aerobee.spark.errors import OptionError
from aerobee.spark.records.columns import BY_NAME

_SIZE = re.compile(r"(\d{1,18})\s*([kmg]?)b?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
PARTITION_BYTES_MIN = 64 << 10
PARTITIONS_MAX = 100_000
NAMED_MAX = 50  # of what there is, where something was named wrongly
_NAMESRV = "'10.0.0.5:9876', several with semicolons"


def near(name: str, allowed: Collection[str]) -> str:
    """A wrong name, what may have been meant, and what there is."""
    by_lower = {each.lower(): each for each in allowed}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[found[0]]}?" if found else ""
    shown = ", ".join(list(allowed)[:NAMED_MAX]) or "none"
    more = f" and {len(allowed) - NAMED_MAX} more" if len(allowed) > NAMED_MAX else ""
    return f"{name!r}{hint} (there are: {shown}{more})"


def unknown_column(where: str, name: str) -> OptionError:
    """The refusal of a column that there is not."""
    return OptionError(f"{where}: unknown column {near(name, list(BY_NAME))}")


def columns(option: str, value: str) -> tuple[str, ...]:
    """Names of columns, each once."""
    names = tuple(name.strip().lower() for name in value.split(",") if name.strip())
    if not names:
        raise OptionError(f"option {option}: {value!r} names no column, as in 'topic, body'")
    for at, name in enumerate(names):
        if name not in BY_NAME:
            raise unknown_column(f"option {option}", name)
        if name in names[:at]:
            raise OptionError(f"option {option}: column {name!r} stands there twice")
    return names


def choice(*allowed: str) -> Callable[[str, str], str]:
    """One of some words, in any case."""
    by_lower = {word.lower(): word for word in allowed}

    def parse(option: str, value: str) -> str:
        if (word := value.strip().lower()) in by_lower:
            return by_lower[word]
        found = difflib.get_close_matches(word, by_lower, n=1)
        hint = f"; did you mean {by_lower[found[0]]}?" if found else ""
        raise OptionError(f"option {option}: {value!r} is not one of {', '.join(allowed)}{hint}")

    return parse


def flag(option: str, value: str) -> bool:
    """Whether something is wanted."""
    return choice("true", "false")(option, value) == "true"


def _bytes(value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    return int(found[1]) * _SIZE_UNITS[found[2].lower()] if found else 0


def size(option: str, value: str) -> int:
    """A number of bytes."""
    parsed = _bytes(value)
    if parsed < PARTITION_BYTES_MIN:
        raise OptionError(
            f"option {option}: {value!r} is no size of at least 64k; write bytes, or a number"
            " with k, m or g, as 256m"
        )
    return parsed


def trigger_bytes(option: str, value: str) -> int:
    """How many bytes of records a trigger takes."""
    if not 0 < _bytes(value) < 1 << 63:
        raise OptionError(
            f"option {option}: {value!r} is no size; write bytes, or a number with k, m or g, as"
            " 256m"
        )
    return _bytes(value)


def messages(option: str, value: str) -> int:
    """How many messages a trigger takes."""
    if not re.fullmatch(r"\d{1,18}", value.strip()) or not int(value):
        raise OptionError(f"option {option}: {value!r} is no number of messages from 1 on")
    return int(value)


def partitions(option: str, value: str) -> int:
    """A number of partitions."""
    if not re.fullmatch(r"\d{1,9}", value.strip()) or not 0 < int(value) <= PARTITIONS_MAX:
        raise OptionError(
            f"option {option}: {value!r} is no number of partitions from 1 to {PARTITIONS_MAX}"
        )
    return int(value)


def milliseconds(option: str, value: str) -> int:
    """A point in time."""
    if not re.fullmatch(r"\d{1,18}", value.strip()):
        raise OptionError(
            f"option {option}: {value!r} is no time in milliseconds since 1970-01-01 UTC"
        )
    return int(value)


def duration_ms(option: str, value: str) -> int:
    """How long something may take."""
    if not re.fullmatch(r"\d{1,9}", value.strip()):
        raise OptionError(f"option {option}: {value!r} is no number of milliseconds, as 30000")
    return int(value)


def topics(option: str, value: str) -> frozenset[str]:
    """Names of topics."""
    names = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
    if not names:
        raise OptionError(f"option {option}: {value!r} names no topic, as in 'orders,payments'")
    return names


def pattern(option: str, value: str) -> str:
    """A regular expression that whole names must match."""
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise OptionError(
            f"option {option}: {value!r} is no regular expression: {error}; write it as"
            " 'orders.*' (it must match a topic's whole name)"
        ) from None
    if not value:
        raise OptionError(f"option {option} is empty: write a pattern such as 'orders.*'")
    return value


def nameservers(option: str, value: str) -> tuple[str, ...]:
    """Addresses of nameservers."""
    from aerobee.remoting.net.addresses import BadAddress, parse_address

    found = tuple(part for part in re.split(r"[;,\s]+", value) if part)
    try:
        for address in found:
            parse_address(address)
    except BadAddress as error:
        raise OptionError(f"option {option}: {error}; write it as {_NAMESRV}") from None
    if not found:
        raise OptionError(f"option {option} is empty: write it as {_NAMESRV}")
    return found


def group(option: str, value: str) -> str:
    """The name of a consumer or producer group."""
    from aerobee.client.errors import InvalidMessage
    from aerobee.client.message import GROUP_CHARACTERS_MAX, check_name

    try:
        check_name("group", value.strip(), GROUP_CHARACTERS_MAX)
    except InvalidMessage as error:
        raise OptionError(f"option {option}: {error}") from None
    return value.strip()


def paths(option: str, value: str) -> tuple[str, ...]:
    """The list of paths that `load` was given, as Spark writes it."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise OptionError(f"option {option}: {value!r} is no list of paths; write load([...])")
    return tuple(path for path in found if path.strip())


def text(option: str, value: str) -> str:
    """Whatever stands there; looked at later."""
    return value.strip()
