"""Which messages there are of each queue of a store.

The ConsumeQueues are looked at up to the confirmed end of the log: an entry whose record may
still be in the making does not count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aerobee.remoting.words import LIGHT_QUEUE_PREFIX
from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.log_end import find_end
from aerobee.spark.at_rest.log_files import LogSegment, list_segments
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_folders import topic_dir, topic_dirs
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.errors import DataLost
from aerobee.spark.offsets import QUEUE_ID_MAX, BrokerQueue, QueueRange
from aerobee.spark.topics import ALL_TOPICS, TopicChoice

log = logging.getLogger(__name__)

Found = TypeVar("Found")
THREADS = 32  # that look at queues, and wait for the disk more than for each other
QUEUES_AT_ONCE = 500  # of one thread
LOST_NAMED_MAX = 10  # ranges that an error or a warning names one by one
LOST_REASON = (
    "the broker's retention has deleted them, their topic was deleted, the log was damaged there,"
    " or the store was made anew"
)


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store at one moment: its log's files and confirmed end."""

    store: Store
    segments: list[LogSegment]
    end: int

    @classmethod
    def look(cls, store: Store, tail_bytes: int | None = None) -> StoreState:
        """The state at this moment; see `find_end`. Raises StoreUnreadable.

        Where a file goes away meanwhile, it is looked at once more: a broker that stops removes
        the space that it had prepared behind the end, and retention old files.
        """
        segments = list_segments(store.log_dir)
        try:
            end = find_end(segments, store.queues_dir, tail_bytes)
        except DataLost:
            segments = list_segments(store.log_dir)
            end = find_end(segments, store.queues_dir, tail_bytes)
        return cls(store, segments, end)

    @property
    def start(self) -> int:
        """The first position of the log that is still there."""
        return self.segments[0].base if self.segments else 0


def queue_bounds(
    state: StoreState, choice: TopicChoice = ALL_TOPICS
) -> dict[BrokerQueue, QueueRange]:
    """Each wanted queue's messages: from its earliest offset up to its latest, the next to come."""
    return {each.key: each for each in each_queue(state, _bounds, choice)}


def each_queue(
    state: StoreState,
    look: Callable[[BrokerQueue, ConsumeQueueFiles, StoreState], Found],
    choice: TopicChoice = ALL_TOPICS,
) -> Iterator[Found]:
    """What a look at each wanted queue's entries finds; several at once where there are many."""

    def at_some(queues: Sequence[tuple[BrokerQueue, str]]) -> list[Found]:
        found = []
        for key, queue_dir in queues:
            with ConsumeQueueFiles(queue_dir) as entries:
                found.append(look(key, entries, state))
        return found

    queues = list(queue_dirs(state.store, choice))
    parts = [queues[at : at + QUEUES_AT_ONCE] for at in range(0, len(queues), QUEUES_AT_ONCE)]
    if len(parts) < 2:
        for part in parts:
            yield from at_some(part)
        return
    with ThreadPoolExecutor(THREADS) as pool:  # that wait for the disk at the same time
        for found in pool.map(at_some, parts):
            yield from found


def _bounds(key: BrokerQueue, entries: ConsumeQueueFiles, state: StoreState) -> QueueRange:
    return QueueRange(key, *entries.bounds(state.start, state.end))


def queue_dirs(store: Store, choice: TopicChoice = ALL_TOPICS) -> Iterator[tuple[BrokerQueue, str]]:
    """The wanted queues and their folders."""
    for topic, folder in topic_dirs(store.queues_dir).items():
        if not is_topic(topic) or not choice.wants(topic):
            continue
        for name in disk.folders_if_there(folder) or ():  # deleted meanwhile, with all its queues
            if (number := queue_number(name)) is None:
                continue
            key = BrokerQueue(store.label, topic, number)
            if choice.wants_queue(key):
                yield key, f"{folder}/{name}"


def topic_folders(store: Store) -> list[str]:
    """The topics that have queues, or had some."""
    return [name for name in topic_dirs(store.queues_dir) if is_topic(name)]


def is_topic(folder: str) -> bool:
    """Whether a folder of that name holds a topic's queues: no light ones, and it is UTF-8."""
    if folder.startswith(LIGHT_QUEUE_PREFIX):
        return False
    try:
        folder.encode()
    except UnicodeEncodeError:  # no name that a record can have
        return False
    return True


def queue_number(folder: str) -> int | None:
    """The queue whose folder has that name; None where a broker calls no queue's so."""
    if not folder.isascii() or not folder.isdigit() or len(folder) > 10:
        return None
    number = int(folder)
    return number if number <= QUEUE_ID_MAX and str(number) == folder else None


def queue_dir(store: Store, key: BrokerQueue) -> str:
    """The folder of one queue's files."""
    return f"{topic_dir(store.queues_dir, key.topic)}/{key.queue_id}"


def report_lost(lost: list[QueueRange], why: str = LOST_REASON, *, fail: bool) -> None:
    """Raise DataLost with the ranges of messages that are gone, and why, or warn of them."""
    if not lost:
        return
    named = ", ".join(map(str, lost[:LOST_NAMED_MAX]))
    more = f" and {len(lost) - LOST_NAMED_MAX} more" if len(lost) > LOST_NAMED_MAX else ""
    count = sum(each.end - each.start for each in lost)
    text = f"{count} messages that were asked for are not in the store: {named}{more}; {why}"
    if fail:
        raise DataLost(f"{text} (failOnDataLoss=false reads what is left)")
    log.warning("%s; they are left out", text)
