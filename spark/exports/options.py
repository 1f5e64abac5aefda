"""What is asked of an export, checked: the words that `export` and `plan_to` take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict

from aerobee.spark.at_rest.queue_ranges import topic_folders
from aerobee.spark.at_rest.stores import Paths, Store
from aerobee.spark.errors import OptionError
from aerobee.spark.lake.disk import DISK
from aerobee.spark.lake.formats import Format
from aerobee.spark.lake.lake import Lake
from aerobee.spark.options.values import near, pattern
from aerobee.spark.planning.asked_names import configured_queues
from aerobee.spark.records.columns import PROPERTIES
from aerobee.spark.records.selection import Selection
from aerobee.spark.topics import TopicChoice

FILE_BYTES = 256 << 20
FILE_BYTES_MIN = 64 << 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_USERS = TopicChoice(system=False, retry=False)

Stores = str | Path | Sequence[str | Path]


class Wanted(TypedDict, total=False):
    """What `export` and `plan_to` both take, beside the places; `export` tells of each."""

    format: str
    compression: str | None
    properties: str
    file_bytes: int
    decompress: bool
    topics: Collection[str] | None
    topic_pattern: str | None
    system_topics: bool
    since: datetime | int | None
    until: datetime | int | None
    incremental: bool
    overwrite: bool
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is asked of an export, checked; the same for all that it may have to do again."""

    path: Paths
    lake: Lake
    selection: Selection
    format: Format
    incremental: bool
    overwrite: bool
    file_bytes: int
    decompress: bool
    fail_on_data_loss: bool


def checked_options(store: Stores, out_dir: str | Path, wanted: Wanted) -> ExportOptions:
    """The options of an export. Raises OptionError."""
    chosen = Format.choose(
        wanted.get("format", "parquet"),
        wanted.get("compression"),
        wanted.get("properties", PROPERTIES[0]),
    )
    file_bytes = wanted.get("file_bytes", FILE_BYTES)
    incremental, overwrite = wanted.get("incremental", False), wanted.get("overwrite", False)
    if incremental and overwrite:
        raise OptionError("incremental adds to an export and overwrite replaces it: choose one")
    if file_bytes < FILE_BYTES_MIN:
        raise OptionError(f"file_bytes: {file_bytes} is less than {FILE_BYTES_MIN}")
    return ExportOptions(
        _paths(store),
        Lake(out_dir),
        _selection(wanted),
        chosen,
        incremental,
        overwrite,
        file_bytes,
        wanted.get("decompress", False),
        wanted.get("fail_on_data_loss", True),
    )


def _paths(store: Stores) -> Paths:
    """The stores as they were named; one text may list several with commas, as the option does."""
    if not isinstance(store, str | Path):
        return tuple(map(str, store))
    name, _, labelled = str(store).partition("=")
    alone = labelled and not {"/", ","} & {*name} and DISK.is_folder(Path(labelled))
    return (str(store),) if alone else str(store)


def _selection(wanted: Wanted) -> Selection:
    topics, by_pattern = _topic_names(wanted.get("topics")), wanted.get("topic_pattern")
    if topics and by_pattern is not None:
        raise OptionError("topics and a pattern of topics exclude each other: name one of them")
    if by_pattern is not None:
        pattern("topic_pattern", by_pattern)
    since_ms, until_ms = milliseconds(wanted.get("since")), milliseconds(wanted.get("until"))
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise OptionError(f"until ({until_ms}) is not after since ({since_ms})")
    choice = TopicChoice(
        topics,
        by_pattern,
        system=wanted.get("system_topics", False),
    )
    return Selection(since_ms=since_ms, until_ms=until_ms, choice=choice)


def _topic_names(topics: Collection[str] | None) -> frozenset[str] | None:
    """The names that were given, None if none were; one text is one name. Raises OptionError."""
    names = frozenset({topics} if isinstance(topics, str) else topics or ())
    for name in names:
        if not isinstance(name, str) or not name:
            raise OptionError(f"topics: {name!r} is no name of a topic, as in ['orders']")
    return names or None


def check_topics(wanted: Iterable[str], stores: Collection[Store]) -> None:
    """Refuse topics of which no store has a queue, and no broker was told.

    Raises OptionError with the nearest name.
    """
    there = {name for store in stores for name in topic_folders(store)}
    there.update(name for store in stores for name in configured_queues(store))
    for name in sorted(wanted):
        if name not in there:
            users = sorted(each for each in there if _USERS.wants(each))
            raise OptionError(f"topics: no store has a topic {near(name, users)}")


def milliseconds(moment: datetime | int | None) -> int | None:
    """A point in time as ms since 1970, rounded up; a datetime without a zone is UTC.

    Store times are whole ms: one is at or after a moment, or before it, just as it is of the
    next whole ms.
    """
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return -((_EPOCH - moment) // _MICROSECOND // 1000)
