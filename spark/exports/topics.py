"""The topics that an export names: each must be one that a store has, has had, or is to have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aerobee.spark.at_rest.queue_ranges import topic_folders
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.errors import OptionError
from aerobee.spark.options.values import near
from aerobee.spark.planning.asked_names import configured_queues
from aerobee.spark.topics import TopicChoice

_USERS = TopicChoice(system=False, retry=False)


def topic_names(topics: Collection[str] | None) -> frozenset[str] | None:
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
