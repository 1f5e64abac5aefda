"""Reads of messages with a key: what the index has is read alone, what it has not as ever."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from aerobee.spark.at_rest.key_index import Keyed, Span, find_keyed
from aerobee.spark.at_rest.keyed_records import KeyedRecord
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_folders import batch_topics, topic_dirs
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.offsets import BrokerQueue
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.selection import Selection

RECORDS_PER_TASK = 4096
_REPLACED = "\ufffd"  # what bytes become that are no UTF-8: not the same ones everywhere


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """Records at known, ascending positions of a log, which have the keys that are asked for."""

    log_dir: str
    segments: tuple[LogSegment, ...]
    positions: tuple[int, ...]
    sizes: tuple[int, ...]


def index_words(keys: Collection[str]) -> frozenset[str] | None:
    """For each text of the column `keys` a key of its own that the index has.

    None where one has none: the index cannot tell where such messages are.
    """
    words = set()
    for text in keys:
        word = max(text.split(" "), key=len)
        if not word or _REPLACED in text:
            return None
        words.add(word)
    return frozenset(words)


def keyed(state: StoreState, selection: Selection, dispatched: int | None) -> Keyed | None:
    """What the index says of a selection's keys; None where it is not asked, or does not say.

    Messages before `dispatched` count if their topic has queues; None: where all topics count.
    """
    words = None if selection.keys is None else index_words(selection.keys)
    topics = _topics(state.store, selection, dispatched)
    if words is None or topics is None:
        return None
    return find_keyed(state, state.end if dispatched is None else dispatched, topics, words)


def key_pieces(
    store: Store, segments: Sequence[LogSegment], found: Keyed, *, queues_lead: bool
) -> Iterator[KeyPiece]:
    """Pieces of the records found, of those in the segments.

    `queues_lead`: only of those that their queue leads to, as where the queues are read.
    """
    spans = [(each.base, each.end) for each in segments]
    records = [each for each in found.records if _inside(spans, each)]
    if queues_lead:
        records = list(_queued(store, records))
    for low in range(0, len(records), RECORDS_PER_TASK):
        part = records[low : low + RECORDS_PER_TASK]
        first, last = part[0].position, part[-1].position
        near = tuple(each for each in segments if each.end > first and each.base <= last)
        places = tuple(each.position for each in part), tuple(each.size for each in part)
        yield KeyPiece(store.log_dir, near, *places)


def uncovered(
    pieces: Sequence[Piece | EntryPiece | KeyPiece], covered: Sequence[Span]
) -> Iterator[Piece | EntryPiece]:
    """What is left of pieces without the spans of the log that are covered."""
    for piece in pieces:
        if isinstance(piece, EntryPiece):
            for low, high in _outside((piece.log_start, piece.log_end), covered):
                near = tuple(each for each in piece.segments if each.end > low and each.base < high)
                yield replace(piece, segments=near, log_start=low, log_end=high)
        elif isinstance(piece, Piece):
            for low, high in _outside((piece.start, piece.end), covered):
                yield replace(piece, start=low, end=high)


def _outside(span: Span, covered: Sequence[Span]) -> Iterator[Span]:
    low, end = span
    for begin, behind in covered:
        if begin >= end:
            break
        if low < begin:
            yield low, begin
        low = max(low, behind)
    if low < end:
        yield low, end


def _inside(spans: Sequence[Span], record: KeyedRecord) -> bool:
    return any(low <= record.position and record.end <= high for low, high in spans)


def _queued(store: Store, records: Sequence[KeyedRecord]) -> Iterator[KeyedRecord]:
    kept = set()
    queue = attrgetter("topic", "queue_id")
    for (topic, queue_id), of_queue in groupby(sorted(records, key=queue), queue):
        key = BrokerQueue(store.label, topic, queue_id)
        with ConsumeQueueFiles(queue_dir(store, key)) as entries:
            kept |= {
                each.position
                for each in of_queue
                if each.queue_offset >= 0 and entries.position(each.queue_offset) == each.position
            }
    return (each for each in records if each.position in kept)


def _topics(store: Store, selection: Selection, dispatched: int | None) -> list[str] | None:
    """The topics whose messages are wanted; None where they cannot be told."""
    named: AbstractSet[str] | None = selection.topics
    if named is None:
        named = selection.choice.names
    if dispatched is not None:
        folders = topic_dirs(store.queues_dir).keys()
        if not folders:
            return None
        named = set(folders) if named is None else named & folders
    if named is None:
        return None
    topics = [each for each in named if _is_text(each) and selection.wants_topic(each)]
    # of a batch the index has the keys of its record, not those of its messages
    return None if batch_topics(store.queues_dir).intersection(topics) else topics


def _is_text(name: str) -> bool:
    """Whether it is UTF-8, as a name in a record is."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
