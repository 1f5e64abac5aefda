"""Index files of a store at rest: whether they agree with themselves and the log; made anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import SLOTS_DEFAULT, IndexShape, index_names
from aerobee.storage.features.index.indexer import DAMAGED_INDEX, Indexer
from aerobee.storage.features.index.note import read_index_note
from aerobee.storage.features.index.slices import ENTRY
from aerobee.storage.features.index.soundness import look_through
from aerobee.storage.features.index.sums import DamagedIndexError, read_sums, remove_sums
from aerobee.storage.layout import INDEX_NOTE
from aerobee.storage.log.snapshot import LogSnapshot

SLICE_BYTES: Final = 64 << 20


def shape_of(files: Files, root: Path) -> IndexShape | None:
    """Return how large the index files of a store are, None where none or nobody can say.

    How many slots they have says our note; without it RocketMQ's default counts, and of smaller
    files nobody knows what is a slot.
    """
    names = index_names(files, root)
    if not names:
        return None
    note = read_index_note(files, root)
    slots = note.slots if note is not None and note.slots > 0 else SLOTS_DEFAULT
    room = files.size(names[-1]) - IndexShape(slots, 0).file_bytes
    if room < 0 and (note is None or note.slots <= 0):
        return None
    return IndexShape(slots, max(0, room) // ENTRY.size)


def index_problems(files: Files, root: Path, log_end: int) -> Iterator[str]:
    """Yield what is wrong with the index files of a store at rest, a sentence each.

    Each entry has to name the one before it of its slot, and to follow the others in the log; each
    slot has to lead to its newest entry; and all of it has to have its check sums, if it has some.
    """
    if (shape := shape_of(files, root)) is None:
        return
    for path in index_names(files, root):
        try:
            look_through(files, path, shape, log_end, read_sums(files, path, shape))
        except DamagedIndexError as error:
            yield str(error)


def rebuild_index(files: Files, root: Path, log: LogSnapshot) -> int:
    """Make the index of a store at rest anew from its log; return how many entries it has.

    The files that there are go to `damaged/index`. Killed anywhere, a start finds no note, and
    indexes the log from its begin on.
    """
    shape = shape_of(files, root)
    if shape is None:
        return 0
    files.remove(root / INDEX_NOTE)
    files.sync_directory(root)
    aside = root / DAMAGED_INDEX
    files.make_directory(aside)
    for path in index_names(files, root):
        remove_sums(files, path)
        files.replace(path, aside / path.name)
    files.sync_directory(aside)
    files.sync_directory(aside.parent)
    indexer = Indexer(files, root, shape)
    indexer.open(log, clean=True)
    while indexer.advance(log, SLICE_BYTES):
        pass
    indexer.sync()
    indexer.close()
    return indexer.entries
