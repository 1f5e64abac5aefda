"""What is wrong with the copies of a store at rest; nothing is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.pairs import Folders, OpenPair, found_pair
from aerobee.storage.features.compaction.records import key_of, sound_record
from aerobee.storage.features.compaction.swap import numbered
from aerobee.storage.features.compaction.units import CompactionSettings
from aerobee.storage.layout import COMPACTING, COMPACTION_LOG, COMPACTION_QUEUE, SWAP

_BOTH: Final = (COMPACTION_LOG, COMPACTION_QUEUE)


def problems_of_copies(files: Files, root: Path) -> Iterator[str]:
    """Yield sentences: files that are alone, units that lead to no sound record of their queue."""
    topics = {topic for kind in _BOTH for topic in files.names(root / kind)}
    for topic in sorted(topics):
        queues = {name for kind in _BOTH for name in files.names(root / kind / topic)}
        for name in sorted(queues):
            if name.isdecimal():
                folders = Folders(*(root / kind / topic / name for kind in _BOTH))
                yield from _problems(files, folders, topic, int(name))


def _problems(files: Files, folders: Folders, topic: str, queue_id: int) -> Iterator[str]:
    names = [set(numbered(files.names(each))) for each in (folders.records, folders.units)]
    if SWAP in files.names(folders.records / COMPACTING):
        yield f"{folders.records}: a round was killed while files moved: the next start ends it"
    last = -1
    for base in sorted(names[0] | names[1]):
        paths = folders.paths(base)
        if base not in names[0] & names[1]:
            yield f"{paths[0 if base in names[1] else 1]}: missing, its other file is there"
            continue
        sizes = [files.size(path) for path in paths]
        if not all(sizes):
            yield f"{paths[0 if not sizes[0] else 1]}: 0 bytes"
            continue
        pair = found_pair(files, folders, base, _Sizes(sizes[0], sizes[1]))
        if pair.count and pair.first <= last:
            yield f"{paths[1]}: offset {pair.first} follows {last}"
        last = max(last, pair.last)
        with OpenPair(files, folders, pair) as opened:
            for unit in opened.units():
                record = sound_record(opened.record(unit), unit)
                if record is None:
                    yield f"{paths[0]}: no sound record of offset {unit.offset} at {unit.position}"
                elif (record.topic, record.queue_id) != (topic, queue_id):
                    yield f"{paths[0]}: a record of {record.topic}-{record.queue_id}"
                elif key_of(record.properties) is None:
                    yield f"{paths[0]}: offset {unit.offset} has no key"


class _Sizes(CompactionSettings, frozen=True):
    """Sizes as they are found, whatever settings they come from."""

    @property
    def file_bytes(self) -> int:
        """Return the size of the file of records."""
        return self.file_bytes_wanted
