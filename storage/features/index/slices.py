"""The loops of the index in Python, which say what those in C do (compiled/index_slices.pyx).

Slots and entries are bytes as in the files. `state` has seven numbers: when the first and the last
message of the file were stored (ms), their positions, slots used, the number of the next entry, and
the first number that has no room.
"""

import os
import struct
from typing import Any, Final

from isal.isal_zlib import crc32

from aerobee.remoting.message.layout import (
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
)
from aerobee.storage.features.index.keys import index_hash, key_text, record_keys
from aerobee.storage.features.index.runs import RUN, RUN_HASH
from aerobee.storage.layout import INDEX_ENTRY_FIELDS, INDEX_SUM_ENTRIES
from aerobee.storage.log.scan import HEAD, store_timestamp

MORE, FULL, OTHER = range(3)
BEGIN_MS, END_MS, BEGIN_POSITION, END_POSITION, SLOTS_USED, COUNT, COUNT_MAX = range(7)
STATE_NUMBERS: Final = 7

SLOT: Final = struct.Struct(">i")
ENTRY: Final = INDEX_ENTRY_FIELDS.run()
SLOT_PAGE_SHIFT: Final = 10
SLOP_MS: Final = 999
"""The times of entries are rounded down to seconds."""

_INT32_MAX: Final = (1 << 31) - 1
_ROLLED_BACK: Final = 12


def index_records(
    data: Any,
    at: int,
    length: int,
    base: int,
    keys_done: int,
    slots: Any,
    dirty: Any,
    entries: Any,
    state: Any,
    records_max: int = 1 << 62,
) -> tuple[int, int, int]:
    """Add the keys of the records from `at` on; return the end, keys done there, and why.

    `base` is the log's position of `data[0]`, `keys_done` how many keys of the first record are
    there already. MORE: the next record goes on behind `length`; FULL: the file, or `entries`, has
    no room for the next key; OTHER: no record stands there.
    """
    first = state[COUNT]
    while records_max > 0:
        records_max -= 1
        if at > length - RECORD_BYTES_MIN:
            break
        found = _parts(data, at, base)
        if found is None:
            return at, keys_done, OTHER
        size, sys_flag, topic_at, topic_bytes, properties_bytes = found
        if size > length - at:
            break
        if not _adds_up(size, topic_at, topic_bytes, properties_bytes):
            return at, keys_done, OTHER
        if sys_flag & _ROLLED_BACK != _ROLLED_BACK:
            begin = at + topic_at
            topic = bytes(data[begin : begin + topic_bytes]).decode("utf-8", "replace")
            properties = bytes(data[begin + topic_bytes + 2 : at + size])
            stamp = store_timestamp(data, at, sys_flag)
            for which, (kind, key) in enumerate(record_keys(topic, properties)):
                if which < keys_done:
                    continue
                key_hash = index_hash(key_text(topic, key, kind))
                if not _put(key_hash, base + at, stamp, slots, dirty, entries, state, first):
                    return at, which, FULL
        keys_done = 0
        at += size
    return at, keys_done, MORE


def index_runs(
    runs: Any,
    at: int,
    until: int,
    position: int,
    keys_done: int,
    log_end: int,
    slots: Any,
    dirty: Any,
    entries: Any,
    state: Any,
) -> tuple[int, int, int, int]:
    """Add the keys of runs from `at` on that begin before `until`, made by who packed the records.

    What they are says `runs.py`. What lies before `position`, and the first `keys_done` keys there,
    is passed over. Returns where the first run is that is not wholly taken, the position behind
    what was, keys done there, and why.
    MORE: the next one begins at `until`, or ends behind `log_end`; FULL as above; OTHER: between
    `position` and the next run are records that the log alone has.
    """
    first = state[COUNT]
    while at < until:
        begin, end, stamp, count = RUN.unpack_from(runs, at)
        if end > log_end:
            break
        if end > position:
            if begin > position:
                return at, position, keys_done, OTHER
            before, which = -1, 0
            for number in range(count):
                behind, key_hash = RUN_HASH.unpack_from(
                    runs, at + RUN.size + number * RUN_HASH.size
                )
                here = begin + behind
                which, before = (which + 1 if here == before else 0), here
                if here < position or (here == position and which < keys_done):
                    continue
                if not _put(key_hash, here, stamp, slots, dirty, entries, state, first):
                    return at, here, which, FULL
            position, keys_done = end, 0
        at += RUN.size + count * RUN_HASH.size
    return at, position, keys_done, MORE


def _parts(data: Any, at: int, base: int) -> tuple[int, int, int, int, int] | None:
    """Return size, sys flag, the topic's place and length, and the properties' length.

    None for no record; lengths of one whose end is not there, or that do not fit, are -1.
    """
    size, magic, _, _, _, _, position, sys_flag = HEAD.unpack_from(data, at)
    if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_BYTES_MIN or position != base + at:
        return None
    if size > len(data) - at:
        return size, sys_flag, -1, -1, -1
    body_at = BODY_BYTES_AT[sys_flag & HOST_BITS] + BODY_LENGTH_BYTES
    if body_at > size:
        return size, sys_flag, -1, -1, -1
    (body,) = SLOT.unpack_from(data, at + body_at - BODY_LENGTH_BYTES)
    prefix = 2 if magic == MAGIC_V2 else 1
    topic_at = body_at + body + prefix
    if body < 0 or topic_at + 2 > size:
        return size, sys_flag, -1, -1, -1
    topic = int.from_bytes(data[at + topic_at - prefix : at + topic_at], "big", signed=prefix == 2)
    end = topic_at + topic
    if topic < 0 or end + 2 > size:
        return size, sys_flag, -1, -1, -1
    properties = int.from_bytes(data[at + end : at + end + 2], "big", signed=True)
    return size, sys_flag, topic_at, topic, properties


def _adds_up(size: int, topic_at: int, topic: int, properties: int) -> bool:
    return topic_at >= 0 and properties >= 0 and topic_at + topic + 2 + properties == size


def _put(
    key_hash: int,
    position: int,
    stamp: int,
    slots: Any,
    dirty: Any,
    entries: Any,
    state: Any,
    first: int,
) -> bool:
    """Add an entry; False where there is no room."""
    count = int(state[COUNT])
    at = (count - first) * ENTRY.size
    if count >= state[COUNT_MAX] or at + ENTRY.size > len(entries):
        return False
    slot = key_hash % (len(slots) // SLOT.size)
    (previous,) = SLOT.unpack_from(slots, slot * SLOT.size)
    if not 0 < previous < count:
        previous = 0
        state[SLOTS_USED] += 1
    if count <= 1:
        state[BEGIN_MS], state[BEGIN_POSITION] = stamp, position
    begin_ms = int(state[BEGIN_MS])
    seconds = min(max(0, stamp - begin_ms) // 1000, _INT32_MAX) if begin_ms > 0 else 0
    ENTRY.pack_into(entries, at, key_hash, position, seconds, previous)
    SLOT.pack_into(slots, slot * SLOT.size, count)
    dirty[slot >> SLOT_PAGE_SHIFT] = 1
    state[COUNT], state[END_POSITION] = count + 1, position
    state[END_MS] = max(int(state[END_MS]), stamp)
    return True


def add_sums(data: Any, begun: int, room: int, block_bytes: int, sums: Any) -> tuple[int, int]:
    """Sum blocks, the first of which has room for `room` bytes behind those that `begun` sums.

    Notes in `sums` those of blocks that are full; returns how many, and the sum of what follows.
    """
    count = at = 0
    with memoryview(data) as view:
        while at < len(view):
            part = view[at : at + room]
            begun = crc32(part, begun)
            at += len(part)
            if len(part) < room:
                break
            sums[count] = begun
            count, begun, room = count + 1, 0, block_bytes
    return count, begun


def link_entries(
    data: bytes, number: int, log_end: int, position: int, slots: Any
) -> tuple[int, int, int]:
    """Have slots lead to the entries of `data`, the first of which has a number.

    Returns how many are sound, the position of the last of them, and how many slots were empty.
    An entry is sound if it is not zeros, lies behind the one before it and before `log_end`, and
    names the entry that its slot led to.
    """
    used = 0
    slots_count = len(slots) // SLOT.size
    for which, (key_hash, here, _, previous) in enumerate(ENTRY.iter_unpack(data)):
        if key_hash < 0 or not position <= here < log_end or key_hash == here == previous == 0:
            return which, position, used
        at = key_hash % slots_count * SLOT.size
        (before,) = SLOT.unpack_from(slots, at)
        if previous != before:
            return which, position, used
        used += before == 0
        SLOT.pack_into(slots, at, number + which)
        position = here
    return len(data) // ENTRY.size, position, used


def unlink_entries(data: bytes, slots: Any) -> int:
    """Have slots lead to what they led to before these sound entries; return slots emptied."""
    slots_count, emptied = len(slots) // SLOT.size, 0
    for at in range(len(data) - ENTRY.size, -1, -ENTRY.size):
        key_hash, _, _, previous = ENTRY.unpack_from(data, at)
        if key_hash >= 0:
            SLOT.pack_into(slots, key_hash % slots_count * SLOT.size, previous)
            emptied += previous == 0
    return emptied


def follow_chain(
    fd: int,
    entries_at: int,
    number: int,
    count: int,
    key_hash: int,
    begin_ms: int,
    earliest_ms: int,
    latest_ms: int,
    entries_max: int,
    positions: Any,
    sums: Any,
) -> tuple[int, int, int, bool]:
    """Walk the entries of a slot from `number` back and note those of a hash and a time.

    Each is held against its block's sum, of which `sums` has those of all entries before `count`;
    where it has none, the file is believed. Returns how many were noted, the entry to go on with
    (0: there is none), how many were walked, and whether all of it is sound: False where the file
    ends, a block has another sum, or an entry does not lead back; without sums that ends it.
    """
    walked = found = 0
    block, begin, end = b"", 0, 0
    while 0 < number < count and walked < entries_max and found < len(positions):
        if not begin <= number < end:
            which = number // INDEX_SUM_ENTRIES
            begin, end = number, number + 1
            if len(sums):
                begin = max(1, which * INDEX_SUM_ENTRIES)
                end = min(count, (which + 1) * INDEX_SUM_ENTRIES)
            block = os.pread(fd, (end - begin) * ENTRY.size, entries_at + ENTRY.size * begin)
            if len(block) < (end - begin) * ENTRY.size:
                return found, number, walked, False
            if len(sums) and (which >= len(sums) or crc32(block) != sums[which]):
                return found, number, walked, False
        walked += 1
        its_hash, position, seconds, previous = ENTRY.unpack_from(
            block, (number - begin) * ENTRY.size
        )
        stamp = begin_ms + (seconds * 1000 if number > 1 else 0)
        if its_hash == key_hash and earliest_ms - SLOP_MS <= stamp <= latest_ms:
            positions[found] = position
            found += 1
        if not 0 <= previous < number:
            if len(sums):
                return found, number, walked, False
            previous = 0
        number = previous
    return found, number, walked, True
