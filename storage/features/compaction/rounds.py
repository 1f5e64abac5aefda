"""A round: the older pairs of a copy are written anew, with the latest record of each key.

The newest offset of a key wins; an empty body says that the key is no more. What is newer than the
keys that a round has looked at stays as it is, for the next one. Offsets stay what they are.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from typing import Final

import msgspec

from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Gone
from aerobee.storage.features.compaction.pairs import Pair
from aerobee.storage.features.compaction.records import key_of, sound_record
from aerobee.storage.features.compaction.writing import Copy, PairWriter

log = logging.getLogger(__name__)

KEY_BYTES: Final = 160
"""What a key costs a round in memory: its digest, its offset, and their place in the table."""
RECORDS_PER_STEP: Final = 32  # between two calls of `pause`
COPIES_AT_ONCE: Final = 64

Pause = Callable[[], None]
"""Called every some records, to let others run; raises what is to end the round."""


class RoundResult(msgspec.Struct, frozen=True):
    """What a round did: records that it read and kept, and the offset up to which it looked."""

    compacted_to: int
    records: int = 0
    kept: int = 0
    damaged: int = 0
    bytes_read: int = 0  # of those records
    bytes_kept: int = 0


class _Keys:
    """The newest offset of each key, by a digest that nobody can make two keys share."""

    def __init__(self, keys_max: int) -> None:
        self._secret = os.urandom(16)
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.last = -1

    def put(self, key: str, offset: int) -> bool:
        """Note an offset; False when there are too many keys to note another one."""
        digest = self._digest(key)
        if digest not in self._offsets and len(self._offsets) >= self._keys_max:
            return False
        self._offsets[digest] = offset
        return True

    def is_latest(self, key: str, offset: int) -> bool:
        """Whether no later offset of a key was noted."""
        return offset >= self._offsets.get(self._digest(key), -1)

    def _digest(self, key: str) -> bytes:
        return hashlib.blake2b(
            key.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret
        ).digest()


def compact(queue: CopiedQueue, compacted_to: int, keys_max: int, pause: Pause) -> RoundResult:
    """Run a round where there is something new; `compacted_to` is how far earlier ones came.

    With more than `keys_max` keys it comes as far as that many go, and the next one goes on.
    Errors: OSError, Gone and what `pause` raises; then the copy is as it was.
    """
    with queue.in_round:
        return _compact(queue, compacted_to, keys_max, pause)


def _compact(
    queue: CopiedQueue, compacted_to: int, keys_max: int, pause_others: Pause
) -> RoundResult:
    def pause() -> None:
        pause_others()
        if queue.gone:
            raise Gone

    if queue.gone:
        raise Gone
    pairs = queue.closed_pairs
    if not any(pair.last > compacted_to for pair in pairs):
        return RoundResult(compacted_to)
    keys = _noted_keys(queue, pairs, compacted_to, keys_max, pause)
    try:
        writer = queue.begin_round()
        result = _write(queue, pairs, keys, writer, pause)
        writer.close_last()
        writer.sync(writer.take_unsynced())
        if writer.pairs and writer.pairs[-1].base > pairs[-1].base:
            raise OSError("a round has written more than it has read")
        queue.replace(pairs, writer.pairs)
    except BaseException:
        if not queue.gone and queue.loaded and queue.closed_pairs == pairs:  # nothing has moved
            queue.drop_round()
        raise
    return result


def _noted_keys(
    queue: CopiedQueue, pairs: tuple[Pair, ...], after: int, keys_max: int, pause: Pause
) -> _Keys:
    keys, step = _Keys(max(keys_max, 100)), 0
    keys.last = after
    for pair in pairs:
        if pair.last <= after:
            continue
        with queue.opened(pair) as opened:
            for unit in opened.units(opened.number_of(after + 1)):
                if (step := step + 1) % RECORDS_PER_STEP == 0:
                    pause()
                record = sound_record(opened.record(unit), unit)
                key = key_of(record.properties) if record is not None else None
                if key is not None and not keys.put(key, unit.offset):
                    return keys
                keys.last = unit.offset
    return keys


def _write(
    queue: CopiedQueue, pairs: tuple[Pair, ...], keys: _Keys, writer: PairWriter, pause: Pause
) -> RoundResult:
    """Write what stays."""
    records = kept = damaged = bytes_read = bytes_kept = 0
    waiting: list[Copy] = []
    for pair in pairs:
        with queue.opened(pair) as opened:
            for unit in opened.units():
                if (records := records + 1) % RECORDS_PER_STEP == 0:
                    pause()
                data = opened.record(unit)
                bytes_read += len(data)
                record = sound_record(data, unit)
                if record is None:
                    queue.keep_aside(unit, data)
                    damaged += 1
                    continue
                if unit.offset <= keys.last:
                    key = key_of(record.properties)
                    if key is None or not record.body or not keys.is_latest(key, unit.offset):
                        continue
                kept += 1
                bytes_kept += len(data)
                waiting.append(Copy(unit.offset, unit.tags_code, unit.store_timestamp, data))
                if len(waiting) >= COPIES_AT_ONCE:
                    writer.append(waiting)
                    waiting = []
    writer.append(waiting)
    return RoundResult(keys.last, records, kept, damaged, bytes_read, bytes_kept)
