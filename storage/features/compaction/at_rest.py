"""The copies of a store at rest: what of them is sound, and what of them only the log has."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.message.record import decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.copies import ASIDE
from aerobee.storage.features.compaction.finding import Finder
from aerobee.storage.features.compaction.notes import read_copied
from aerobee.storage.features.compaction.pairs import Folders
from aerobee.storage.features.compaction.records import key_of
from aerobee.storage.features.compaction.salvage import Salvage
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.units import UNIT_BYTES, CompactionSettings
from aerobee.storage.layout import COMPACTING, COMPACTION_LOG, COMPACTION_QUEUE, SWAP, file_spans
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.settings import StoreSettings

KEYS_AT_ONCE: Final = 1 << 20
"""Of messages of one queue, in memory, some 200 bytes each; with more its log is read again."""
_BOTH: Final = (COMPACTION_LOG, COMPACTION_QUEUE)


class CopyAtRest(msgspec.Struct, frozen=True):
    """The copy of one queue, where it lies, and where what is damaged of it is kept."""

    topic: str
    queue_id: int
    folders: Folders
    aside: Path


class SizesAsFound(CompactionSettings, frozen=True):
    """Sizes of files as they are found, whatever settings they come from."""

    @property
    def file_bytes(self) -> int:
        """Return the size of the file of records."""
        return self.file_bytes_wanted


class CopiesAtRest:
    """Looks at the copies of a store that nobody uses; nothing is written."""

    def __init__(self, files: Files, settings: StoreSettings, log: LogSnapshot) -> None:
        self._files = files
        self._root = settings.root
        self._log = log
        self._queues = ConsumeQueues(files, settings, write=False)
        self._noted = read_copied(files, self._root)
        self.unknown = ""  # why nothing can be said of the copies
        self.copies = list(self._found())
        sizes = self._guessed_sizes() if self.copies else None
        self.sizes = sizes or SizesAsFound()
        if self.copies and sizes is None:
            self.copies = []
            self.unknown = f"{self._root / COMPACTION_LOG}: no two sizes of files go together"
        if self.copies:
            self._queues.load({})
            for queue in self._queues:
                queue.trim(log.begin)

    def _found(self) -> Iterator[CopyAtRest]:
        files, root = self._files, self._root
        for topic in sorted({name for kind in _BOTH for name in files.names(root / kind)}):
            queues = {name for kind in _BOTH for name in files.names(root / kind / topic)}
            for name in sorted(queues):
                if name.isdecimal():
                    folders = Folders(*(root / kind / topic / name for kind in _BOTH))
                    yield CopyAtRest(topic, int(name), folders, root / ASIDE / topic / name)

    def _guessed_sizes(self) -> SizesAsFound | None:
        """Return the sizes that most files have of those that go together, or RocketMQ's.

        None where no file has one of these.
        """
        usual = CompactionSettings()
        counts = Counter({usual.file_bytes: 0}), Counter({usual.unit_file_bytes: 0})
        bases: set[int] = set()
        for copy in self.copies:
            for folder, count in zip(
                (copy.folders.records, copy.folders.units), counts, strict=True
            ):
                for span in file_spans(folder):
                    count[span.size] += 1
                    bases.add(span.begin)
        fitting = [
            (records + units, record_bytes, unit_bytes)
            for record_bytes, records in counts[0].items()
            for unit_bytes, units in counts[1].items()
            if unit_bytes and unit_bytes % UNIT_BYTES == 0
            and record_bytes and record_bytes % unit_bytes == 0
            and not any(base % record_bytes for base in bases)
        ]  # fmt: skip
        files, record_bytes, unit_bytes = max(fitting, default=(0, 0, 0))
        return SizesAsFound(record_bytes, unit_bytes) if files else None

    def salvage(self, copy: CopyAtRest) -> Salvage:
        """Return what is sound of a copy, all of it read. Raises OSError."""
        name = copy.topic, copy.queue_id
        found = Salvage(self._files, copy.folders, self.sizes, name)
        queue = self._queues.find(*name)
        if queue is not None and queue.max_offset:
            found.source = CopySource(self._files, self._log, queue.snapshot())
        found.look(self._noted.get(name, 0))
        finder = Finder(self._files, copy.folders, self.sizes, copy.aside)
        if found.source is not None and _is_anothers(finder, found, found.source):
            found.source = None  # a topic that was deleted, and made again: the next start sees it
        return found

    def lacking(self, found: Salvage) -> "array[int]":
        """Return offsets of messages that the log has and a copy should have, in order.

        Those of units that lead to no sound record, and the latest of keys that it has not. What is
        behind the copy's last record is left to the next start. Raises OSError.
        """
        source = found.source
        if source is None:
            return array("q")
        offsets = {each for each in found.lost if source.record(each) is not None}
        begin, end = source.queue.min_offset, min(found.end, source.queue.max_offset)
        parts = 1 + max(0, end - begin) // KEYS_AT_ONCE
        for part in range(parts):
            latest: dict[bytes, tuple[int, bool]] = {}
            for copy, key, has_body in source.copies(begin, end):
                digest = _digest(key)
                if int.from_bytes(digest[:4], "big") % parts == part:
                    latest[digest] = copy.offset, has_body
            offsets |= _without_newer(found, {
                digest: offset for digest, (offset, has_body) in latest.items()
                if has_body and not found.has(offset)
            })  # fmt: skip
        return array("q", sorted(offsets))

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, a sentence each, with file and place."""
        if self.unknown:
            yield self.unknown
        for copy in self.copies:
            if SWAP in self._files.names(copy.folders.records / COMPACTING):
                yield (
                    f"{copy.folders.records}: a round was killed while files moved: the next start"
                    " ends it"
                )
                continue
            try:
                found = self.salvage(copy)
                missing = self.lacking(found)
            except OSError as error:
                yield f"{copy.folders.records}: cannot be compared with the log: {error}"
                continue
            yield from found.faults
            missing = array("q", [offset for offset in missing if offset not in found.lost])
            if missing:
                yield (
                    f"{copy.folders.records}: {len(missing)} messages are missing that the log has,"
                    f" the first of offset {missing[0]}"
                )

    def close(self) -> None:
        """Let go of the files."""
        self._queues.close()


def _is_anothers(finder: Finder, found: Salvage, source: CopySource) -> bool:
    """Whether a copy is of an earlier topic so called: a record says so, or it has what comes yet.

    No copy has more than its queue; of a killed broker's some entries may only be in the log.
    """
    is_its_own = finder.is_of(found.whole_pairs, source)
    return is_its_own is False or (is_its_own is None and found.end > source.queue.max_offset)


def _without_newer(found: Salvage, missing: dict[bytes, int]) -> set[int]:
    """Leave out keys of which the copy has a later message, which the log has lost."""
    for copy in found.copies() if missing else ():
        digest = _digest(key_of(decode_record(copy.record).properties) or "")
        if missing.get(digest, copy.offset) < copy.offset:
            del missing[digest]
    return set(missing.values())


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def problems_of_copies(files: Files, settings: StoreSettings, log: LogSnapshot) -> Iterator[str]:
    """Yield what is wrong with the copies of a store at rest, a sentence each."""
    found = CopiesAtRest(files, settings, log)
    try:
        yield from found.problems()
    finally:
        found.close()
