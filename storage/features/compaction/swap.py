"""What a round has written takes the place of what it has read: all of it, whenever it is killed.

A note is on the disk before the first file moves, and says what is moved and removed; it is gone
when all names are on the disk. A start that finds one goes on where it was; without one, what a
round has written counts for nothing.
"""

import logging
import struct
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from aerobee.remoting.message.layout import Layout
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.features.compaction.pairs import Folders, Pair, found_pair
from aerobee.storage.features.compaction.units import CompactionSettings
from aerobee.storage.layout import COMPACTING, SWAP, file_name, file_spans, is_file_name

log = logging.getLogger(__name__)

MAGIC: Final = b"AEROSWP1"
NOTE_BYTES_MAX: Final = 4 << 20
_HEAD: Final = Layout(magic="8s", old="i", fresh="i").run()
_PAIR: Final = Layout(base="q", count="q", first="q", last="q").run()
_CRC: Final = struct.Struct(">I")


class Swap(msgspec.Struct, frozen=True):
    """The pairs that go, and those that come."""

    old: tuple[Pair, ...]
    fresh: tuple[Pair, ...]


def note(files: Files, folders: Folders, swap: Swap) -> None:
    """Have the disk know what is about to be done; the files in `compacting` are there already."""
    data = _HEAD.pack(MAGIC, len(swap.old), len(swap.fresh)) + b"".join(
        _PAIR.pack(pair.base, pair.count, pair.first, pair.last)
        for pair in (*swap.old, *swap.fresh)
    )
    replace_file(files, folders.records / COMPACTING / SWAP, data + _CRC.pack(zlib.crc32(data)))


def move(files: Files, folders: Folders, swap: Swap) -> None:
    """Give the files their names; may be done again, however far it has come."""
    fresh = {pair.base for pair in swap.fresh}
    for folder in (folders.records, folders.units):
        there = set(files.names(folder / COMPACTING))
        for base in sorted(fresh):
            if file_name(base) in there:
                files.replace(folder / COMPACTING / file_name(base), folder / file_name(base))
        for pair in swap.old:
            if pair.base not in fresh:
                files.remove(folder / file_name(pair.base))


def finish(files: Files, folders: Folders) -> None:
    """Have the disk know the names, then forget the note and the folders of the round."""
    for folder in (folders.records, folders.units):
        files.sync_directory(folder)
    drop(files, folders)


def drop(files: Files, folders: Folders) -> None:
    """Remove what a round has left, the note first."""
    files.remove(folders.records / COMPACTING / SWAP)
    for folder in (folders.records / COMPACTING, folders.units / COMPACTING):
        for name in files.names(folder):
            files.remove(folder / name)
        files.remove_directory(folder)


def go_on(files: Files, folders: Folders, settings: CompactionSettings) -> bool:
    """End what a killed round has begun; return whether it had come as far as its note."""
    left = files.names(folders.records / COMPACTING) + files.names(folders.units / COMPACTING)
    if not left:
        return False
    swap = _read(files, folders)
    if swap is None or not _still_true(files, folders, settings, swap):
        log.info("compaction_round_dropped folder=%s", folders.records)
        drop(files, folders)
        return False
    move(files, folders, swap)
    finish(files, folders)
    log.info("compaction_round_ended folder=%s", folders.records)
    return True


def _read(files: Files, folders: Folders) -> Swap | None:
    data = files.read_all(folders.records / COMPACTING / SWAP, NOTE_BYTES_MAX)
    if data is None or len(data) < _HEAD.size + _CRC.size:
        return None
    body, crc = data[: -_CRC.size], _CRC.unpack(data[-_CRC.size :])[0]
    magic, old, fresh = _HEAD.unpack_from(body)
    if magic != MAGIC or crc != zlib.crc32(body):
        return None
    if len(body) != _HEAD.size + (old + fresh) * _PAIR.size:
        return None
    pairs = [
        Pair(base, count, first, last)
        for base, count, first, last in _PAIR.iter_unpack(body[_HEAD.size :])
    ]
    return Swap(tuple(pairs[:old]), tuple(pairs[old:]))


def _still_true(files: Files, folders: Folders, settings: CompactionSettings, swap: Swap) -> bool:
    """Whether the files are those that the note speaks of: another broker may have gone on."""
    compacting = folders.below(COMPACTING)
    for pair in swap.fresh:
        waits = file_name(pair.base) in files.names(compacting.units)
        if not _is(files, compacting if waits else folders, settings, pair):
            return False
    fresh = {pair.base for pair in swap.fresh}
    there = {span.begin for span in file_spans(folders.units)}
    return all(
        _is(files, folders, settings, pair)
        for pair in swap.old
        if pair.base in there and pair.base not in fresh
    )


def _is(files: Files, folders: Folders, settings: CompactionSettings, pair: Pair) -> bool:
    try:
        found = found_pair(files, folders, pair.base, settings)
    except FileNotFoundError:
        return False
    return (found.count, found.first, found.last) == (pair.count, pair.first, pair.last)


def numbered(names: Sequence[str]) -> list[int]:
    """Return the bases that file names stand for, in order."""
    return sorted(int(name) for name in names if is_file_name(name))
