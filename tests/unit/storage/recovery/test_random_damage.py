"""Stores that are damaged by chance, more than once each: what is sound is served, and mended."""

import os
import random
import shutil
from pathlib import Path

import pytest
from support.disks.logs import opened, send, settle, small

from aerobee.storage.layout import ENTRY_BYTES, FileSpan, file_spans, queue_paths
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

SEGMENT = 16 * 1024
SECTOR = 512
QUEUES = [("a", 0), ("a", 1), ("b", 0)]

Key = tuple[str, int, int]
"""Topic, queue and offset of a message."""


def settings_of(root: Path) -> StoreSettings:
    """Several files of each kind."""
    return small(root, segment_bytes=SEGMENT)


def written(root: Path, chance: random.Random) -> dict[Key, tuple[int, bytes]]:
    """A store of 160 messages that was stopped, or killed; where each lies, and its record."""
    store = opened(settings_of(root))
    places = {}
    for number in range(160):
        topic, queue_id = chance.choice(QUEUES)
        offset = store.queue(topic, queue_id).max_offset
        body = b"%04d" % number + chance.randbytes(chance.choice([10, 300, 900]))
        places[topic, queue_id, offset] = send(store, topic, queue_id, body=body)
        store.poll()
        if number == 100:
            settle(store)
    records = {key: (place, store.record_at(place) or b"") for key, place in places.items()}
    (store.close if chance.random() < 0.5 else store.abandon)()
    return records


def spoil(path: Path, at: int, chance: random.Random) -> None:
    """Flip a bit, or lose a sector."""
    data = bytearray(path.read_bytes())
    at = min(at, len(data) - 1)
    if chance.random() < 0.5:
        data[at] ^= 1 << chance.randrange(8)
    else:
        begin = at // SECTOR * SECTOR
        data[begin : begin + SECTOR] = bytes(len(data[begin : begin + SECTOR]))
    path.write_bytes(data)


def exchange(one: FileSpan, other: FileSpan) -> None:
    """Let two files have each other's name."""
    aside = one.path.with_name("aside")
    one.path.rename(aside)
    other.path.rename(one.path)
    aside.rename(other.path)


def damage(root: Path, end: int, chance: random.Random) -> tuple[str, tuple[int, int]]:
    """Harm a store once; return how, and which files of the log have each other's name."""
    logs = file_spans(root / "commitlog")
    queues = [path for _, _, path in queue_paths(root)]
    how = chance.choice(["log", "lost", "short", "long", "names", "entry", "queue", "note"])
    log = chance.choice(logs)
    if how == "log":
        place = chance.randrange(end)
        spoil(logs[place // SEGMENT].path, place % SEGMENT, chance)
    elif how == "lost" and log is not logs[0]:
        log.path.unlink()
    elif how == "short":
        os.truncate(log.path, chance.randrange(1, SEGMENT))
    elif how == "long":
        log.path.write_bytes(log.path.read_bytes() + chance.randbytes(100))
    elif how == "names":
        one, other = chance.sample(logs, 2)
        exchange(one, other)
        return how, (one.begin, other.begin)
    elif how == "entry":
        spoil(file_spans(chance.choice(queues))[0].path, chance.randrange(1000), chance)
    elif how == "queue":
        shutil.rmtree(chance.choice(queues))
    elif how == "note":
        spoil(root / "aerobee.progress", chance.randrange(60), chance)
    return how, (0, 0)


def entries(root: Path) -> dict[Key, bytes]:
    """Every entry of every queue file that is there."""
    found = {}
    for topic, queue_id, path in queue_paths(root):
        for span in file_spans(path):
            data = span.path.read_bytes()
            for at in range(0, span.size, ENTRY_BYTES):
                key = (topic, queue_id, (span.begin + at) // ENTRY_BYTES)
                found[key] = data[at : at + ENTRY_BYTES]
    return found


def unserved(store: MessageStore, records: dict[Key, tuple[int, bytes]]) -> list[Key]:
    """The messages that a consumer who asks for their offset does not get."""
    missing = []
    for (topic, queue_id, offset), (_, record) in records.items():
        found = store.read(store.find_queue(topic, queue_id), offset, 1, 1 << 20)
        if not found.count or bytes(found.parts[0]) != record:
            missing.append((topic, queue_id, offset))
    return missing


@pytest.mark.parametrize("seed", range(12))
def test_a_store_that_is_damaged_by_chance(tmp_path: Path, seed: int) -> None:
    """The start serves all but what the damage itself has hit; a repair, entries too; twice."""
    chance = random.Random(seed)
    root = tmp_path / "store"
    records = written(root, chance)
    end = max(place + len(record) for place, record in records.values())
    before = entries(root)
    hit, (one, other) = damage(root, end, chance)
    swapped = {one: other, other: one} if hit == "names" else {}
    hits = [hit, *(damage(root, end, chance)[0] for _ in range(1) if not swapped)]
    left = {span.begin: span.path.read_bytes() for span in file_spans(root / "commitlog")}
    sound = {}
    for key, (place, record) in records.items():
        base = place // SEGMENT * SEGMENT
        data = left.get(swapped.get(base, base), b"")
        if data[place - base : place - base + len(record)] == record:
            sound[key] = (place, record)
    print(f"seed {seed}: {hits}, {len(sound)} of {len(records)} messages are whole")
    copy = shutil.copytree(root, tmp_path / "copy")
    after = entries(root)
    spoilt = {key for key in before if after.get(key, before[key]) != before[key]}
    store = opened(settings_of(root))
    missing = set(unserved(store, sound))
    assert missing <= spoilt  # a wrong entry of a proven part is found by a repair alone
    for topic, queue_id in QUEUES:
        last = max((key[2] for key in sound if key[:2] == (topic, queue_id)), default=-1)
        assert store.queue(topic, queue_id).max_offset > last
    store.close()
    for each in (root, copy):
        repair(settings_of(each), sure=True)
        assert not verify(settings_of(each)).problems
        store = opened(settings_of(each))
        assert not unserved(store, sound)
        store.close()
