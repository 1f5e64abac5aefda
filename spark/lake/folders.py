"""The folders of an export, a topic's messages of one day in each, named by Hive's rules.

Spark and pyarrow read them back so. Names are as long as file systems take them.

A topic may have 255 characters, and escaped it is longer: `%`, legal in topics, becomes `%25`. A
name that is too long is cut, and ends with a hash of all of it, so that no two topics share one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, timedelta

DAY_MS = 86_400_000
NAME_BYTES_MAX = 255  # of a file or folder, on all usual file systems
CUT_MARK = "~"  # no broker takes it in a topic's name
HASH_BYTES = 16
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^" + "".join(map(chr, range(1, 32))))
_TOPIC = "topic="


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One folder of the export: a topic's messages of one day (UTC, by store timestamp)."""

    topic: str
    day: int  # since 1970-01-01

    @property
    def folder(self) -> str:
        """The folder below the export's."""
        return f"{topic_folder(self.topic)}/date={day_text(self.day)}"


def day_text(day: int) -> str:
    """A day since 1970 as an ISO date; days outside the calendar become its ends."""
    low, high = (limit.toordinal() for limit in (date.min, date.max))
    epoch = date(1970, 1, 1).toordinal()
    return (date.min + timedelta(min(max(epoch + day, low), high) - low)).isoformat()


def topic_folder(topic: str) -> str:
    """The folder of a topic's messages; for a name that is too long see `cut_topic`."""
    return fitting(_TOPIC + escape_path(topic))


def cut_topic(topic: str) -> str | None:
    """What readers of folders take for the topic where its name is too long, None where not."""
    whole = _TOPIC + escape_path(topic)
    folder = fitting(whole)
    return None if folder == whole else unescape_path(folder.removeprefix(_TOPIC))


def fitting(name: str) -> str:
    """The name, or if it is too long its beginning and a hash; a sign escaped with % stays whole.

    What fits, as the result does, is left as it is.
    """
    raw = name.encode(errors="surrogateescape")
    if len(raw) <= NAME_BYTES_MAX:
        return name
    ending = CUT_MARK + hashlib.sha256(raw).hexdigest()[: 2 * HASH_BYTES]
    begun = raw[: NAME_BYTES_MAX - len(ending)].decode(errors="ignore")
    escape = begun.rfind("%")
    if escape >= len(begun) - 2:
        begun = begun[:escape]
    return begun + ending


def escape_path(name: str) -> str:
    """A partition value as a folder name, by the rules of Hive's FileUtils.escapePathName."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def unescape_path(name: str) -> str:
    """The partition value that `escape_path` has made a folder name."""
    first, *rest = name.split("%")
    return first + "".join(chr(int(part[:2], 16)) + part[2:] for part in rest)
