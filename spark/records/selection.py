"""Which records a query or an export wants, decided before anything large is decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aerobee.spark.records.columns import FROM_QUEUES
from aerobee.spark.topics import ALL_TOPICS, SUSPECTS, TopicChoice

if TYPE_CHECKING:  # planners only hand selections on
    import numpy.typing as npt

    from aerobee.spark.records.headers import Records
    from aerobee.spark.records.layout import Mask

_SUSPECT_WORDS = tuple(int.from_bytes(start, "little") for start in sorted(SUSPECTS))


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers from `low` on and below `high`, of these only `values`; None is no limit."""

    low: int | None = None
    high: int | None = None
    values: frozenset[int] | None = None

    @property
    def everything(self) -> bool:
        """Whether every number is within."""
        return self == ANY

    def within(self, other: Limits) -> Limits:
        """The numbers that are within both."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        values = [each for each in (self.values, other.values) if each is not None]
        return Limits(
            max(lows, default=None),
            min(highs, default=None),
            frozenset.intersection(*values) if values else None,
        )

    def mask(self, numbers: npt.NDArray[Any]) -> Mask:
        """Which of the numbers are within."""
        import numpy as np

        wanted = np.ones(len(numbers), np.bool_)
        if self.low is not None:
            wanted &= numbers >= self.low
        if self.high is not None:
            wanted &= numbers < self.high
        if self.values is not None:
            wanted &= np.isin(numbers, np.array(sorted(self.values), np.int64))
        return wanted

    def has(self, number: int) -> bool:
        """Whether one number is within."""
        return (
            (self.low is None or number >= self.low)
            and (self.high is None or number < self.high)
            and (self.values is None or number in self.values)
        )


ANY = Limits()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are wanted; None and ANY stand for no limit.

    `since_ms` is the first, `until_ms` the first no longer wanted store timestamp, in ms since
    1970 (UTC). `choice` is what the options say of topics, `topics` a further limit.
    `tag_hashes` and `keys`, texts of the column, only spare reading: a record with others may be
    picked all the same.
    """

    topics: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    choice: TopicChoice = ALL_TOPICS
    queue_ids: Limits = ANY
    queue_offsets: Limits = ANY
    positions: Limits = ANY
    tag_hashes: frozenset[int] | None = None
    keys: frozenset[str] | None = None

    @property
    def everything(self) -> bool:
        """Whether every record is wanted."""
        return replace(self, tag_hashes=None, keys=None) == EVERYTHING

    @property
    def timed(self) -> bool:
        """Whether store timestamps matter."""
        return self.since_ms is not None or self.until_ms is not None

    def wants_topic(self, topic: str) -> bool:
        """Whether any records of a topic are wanted."""
        return (self.topics is None or topic in self.topics) and self.choice.wants(topic)

    def among(self, chunks: Iterable[Records]) -> Iterator[Records]:
        """The wanted ones of each chunk, as long as there are any in it."""
        for records in chunks:
            wanted = self.pick(records)
            if len(wanted):
                yield wanted

    def pick(self, records: Records) -> Records:
        """The wanted ones among the records, in the same order."""
        if self.everything or not len(records):
            return records
        import numpy as np

        wanted = np.ones(len(records), np.bool_)
        times = Limits(self.since_ms, self.until_ms)
        for name, limits in (
            ("store_timestamp", times),
            ("queue_id", self.queue_ids),
            ("queue_offset", self.queue_offsets),
            ("position", self.positions),
        ):
            if not limits.everything:
                wanted &= limits.mask(records.field(name, np.int64))
        if wanted.any() and not (self.topics is None and self.choice.everything):
            self._pick_topics(records, wanted)
        return records if wanted.all() else records.only(np.flatnonzero(wanted))

    def _pick_topics(self, records: Records, wanted: Mask) -> None:
        """Leave in `wanted` the records of wanted topics."""
        import numpy as np

        from aerobee.spark.records import loops
        from aerobee.spark.records.layout import unaligned

        rows = np.flatnonzero(wanted)
        if self.topics is None and not self.choice.limited:
            # only few topics are to be left out: look at those alone that begin like one
            words = unaligned(records.data, "<u4")[records.topic_at[rows]]
            suspect = np.zeros(len(rows), np.bool_)
            for word in _SUSPECT_WORDS:
                suspect |= words == word
            rows = rows[suspect]
        if not len(rows):
            return
        at, lengths = records.topic_at[rows], records.topic_bytes[rows]
        cells = loops.chosen.ragged(records.data, at, lengths)
        names = cells.dictionary_encode()  # the few names that there are, each judged once
        texts = (name.decode(errors="replace") for name in names.dictionary.to_pylist())
        good = np.array([self.wants_topic(text) for text in texts], np.bool_)
        wanted[rows] = good[names.indices.to_numpy()]


EVERYTHING = Selection()


def queues_suffice(
    names: Collection[str], selection: Selection, *, verify_crc: bool = False
) -> bool:
    """Whether the ConsumeQueues alone tell these columns of the wanted records."""
    return FROM_QUEUES.issuperset(names) and not selection.timed and not verify_crc
