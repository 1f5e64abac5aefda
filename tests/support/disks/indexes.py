"""Small index files over small stores: made, asked, and compared with what the log says."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aerobee.remoting.message.record import decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import IndexShape
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.features.index.keys import IndexType, key_text, record_keys
from aerobee.storage.features.index.lookups import KeyLookup, LookupBudget, Question, positions
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.store import MessageStore
from support.disks.logs import NOW_MS, append

SHAPE = IndexShape(slots=64, entries=256)
BYTES = 1 << 40


def properties(uniq: str = "", keys: str = "", tags: str = "") -> bytes:
    """A property string with what is given."""
    pairs = {"UNIQ_KEY": uniq, "KEYS": keys, "TAGS": tags, "MSG_REGION": "DefaultRegion"}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value).encode()


def store_keyed(store: MessageStore, first: int, count: int, topic: str = "orders") -> None:
    """Store messages with keys of all kinds, numbered from `first` on, a second apart."""
    for number in range(first, first + count):
        text = properties(f"U{number:06}", f"k{number} m{number % 7}", "AB"[number % 2])
        tags = "AB"[number % 2]
        append(store, topic, number % 3, tags=tags, properties=text, now_ms=NOW_MS + 1000 * number)
    store.commit_log.commit()


def indexed(
    store: MessageStore,
    shape: IndexShape = SHAPE,
    *,
    clean: bool = True,
    files: Any = None,
    bytes_max: int = BYTES,
) -> Indexer:
    """The index of a store, up to the log's end, in slices of so much of it."""
    indexer = Indexer(files or Files(), store.settings.root, shape)
    indexer.open(store.commit_log.snapshot(), clean=clean)
    catch_up(indexer, store, bytes_max)
    return indexer


def catch_up(indexer: Indexer, store: MessageStore, bytes_max: int = BYTES) -> None:
    """Index all that is committed."""
    while indexer.advance(store.commit_log.snapshot(), bytes_max):
        pass


def found(
    indexer: Indexer,
    store: MessageStore,
    key: str,
    kind: IndexType = "K",
    topic: str = "orders",
    **more: Any,
) -> list[int]:
    """Positions of the messages with a key, as the index has them."""
    log = store.commit_log.snapshot()
    lookup = FileLookup(Files(), log, Path("none"), 1)
    question = Question(topic, key, kind, **({"messages_max": 10_000} | more))
    index, budget = indexer.newest_first(), LookupBudget()
    places = positions(Files(), indexer.shape, index, question, budget)
    records = KeyLookup(places, question, budget, BYTES).go_on(lookup.read, math.inf)
    assert records is not None, "a slice without an end"
    return [decode_record(record).position for record in records]


def said_by_log(store: MessageStore) -> dict[str, list[int]]:
    """What is hashed, and the positions of the messages that have it, read from the log."""
    said: dict[str, list[int]] = {}
    for position, topic, text in _records(store):
        for kind, key in record_keys(topic, text):
            said.setdefault(key_text(topic, key, kind), []).append(position)
    return said


def _records(store: MessageStore) -> Iterator[tuple[int, str, bytes]]:
    for queue in store.queues:
        for offset in range(queue.min_offset, queue.max_offset):
            place = queue.place_of(offset)
            record = store.record_at(place[0]) if place else None
            if record is not None:
                read = decode_record(record)
                yield read.position, read.topic, read.properties


def agrees(indexer: Indexer, store: MessageStore) -> None:
    """Assert that every key of the log is found with its messages, and no others."""
    for text, places in said_by_log(store).items():
        topic, _, key = text.partition("#")
        kind: IndexType = "T" if key.startswith("T#") else "K"
        key = key.removeprefix("T#") if kind == "T" else key
        assert found(indexer, store, key, kind, topic) == sorted(places), text
