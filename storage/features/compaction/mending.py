"""Copies of a store at rest, mended: made anew of what of them is sound, and of the log."""

from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction import swap
from aerobee.storage.features.compaction.at_rest import CopiesAtRest, CopyAtRest
from aerobee.storage.features.compaction.notes import read_compacted, write_compacted
from aerobee.storage.features.compaction.salvage import Salvage
from aerobee.storage.features.compaction.writing import Copy, PairWriter
from aerobee.storage.layout import COMPACTING
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.settings import StoreSettings

STEP_BYTES: Final = 1 << 20
COPIES_AT_ONCE: Final = 64


class CopiesMender:
    """Mends the copies of one store that nobody uses. Killed anywhere it can be begun again.

    A copy with a fault is written anew beside the old one, whole, and takes its place as a round's
    does; files with a fault are copied to `damaged/compaction` before. One without stays as it is.
    """

    def __init__(self, files: Files, settings: StoreSettings, log: LogSnapshot) -> None:
        self._files = files
        self._root = settings.root
        self._found = CopiesAtRest(files, settings, log)

    def run(self) -> Iterator[str]:
        """Mend what there is to mend; yield what was done, a sentence each. Raises OSError."""
        try:
            for copy in self._found.copies:
                if swap.go_on(self._files, copy.folders, self._found.sizes):
                    yield f"{copy.folders.records}: a round that was killed has been ended"
                found = self._found.salvage(copy)
                missing = self._found.lacking(found)
                if found.faults or missing:
                    yield from self._mend(copy, found, missing)
        finally:
            self._found.close()

    def _mend(self, copy: CopyAtRest, found: Salvage, missing: "array[int]") -> Iterator[str]:
        files, folders = self._files, copy.folders
        swap.drop(files, folders)
        writer = PairWriter(files, folders.below(COMPACTING), self._found.sizes)
        try:
            copies = merge(found.copies(), _from_log(found, missing), key=attrgetter("offset"))
            while some := list(islice(copies, COPIES_AT_ONCE)):
                writer.append(some)
            writer.sync(writer.take_unsynced())
            for path in found.damaged:
                self._keep(path, copy.aside)
        except BaseException:
            swap.drop(files, folders)
            raise
        doing = swap.Swap(tuple(found.pairs), writer.pairs)
        swap.note(files, folders, doing)
        swap.move(files, folders, doing)
        swap.finish(files, folders)
        self._look_at_all_again(copy)
        lost = len(found.lost.difference(missing))
        yield (
            f"the copy of {copy.topic}-{copy.queue_id} was made anew: {len(found.offsets)} messages"
            f" of it were sound, {len(missing)} came from the log, {lost} are lost"
            + (f"; what is damaged was copied to {copy.aside}" if found.damaged else "")
        )

    def _look_at_all_again(self, copy: CopyAtRest) -> None:
        """Have the next round leave out what is older than another message of its key."""
        compacted = read_compacted(self._files, self._root)
        if compacted.pop((copy.topic, copy.queue_id), None) is not None:
            write_compacted(self._files, self._root, compacted)

    def _keep(self, path: Path, aside: Path) -> None:
        """Copy a file that has a fault, if it is there; holes stay holes."""
        files = self._files
        try:
            source = files.open(path, write=False)
        except FileNotFoundError:
            return
        try:
            files.make_directory(aside)
            target = files.open(aside / f"{path.parents[2].name}-{path.name}", create=True)
            try:
                files.resize(target, files.size(path))
                at = 0
                while (found := files.next_data(source, at)) is not None:
                    at = max(at, found)
                    if not (data := files.read(source, STEP_BYTES, at)):
                        break
                    files.write(target, data, at)
                    at += len(data)
                files.sync(target)
            finally:
                files.close(target)
            files.sync_directory(aside)
        finally:
            files.close(source)


def _from_log(found: Salvage, offsets: "array[int]") -> Iterator[Copy]:
    for offset in offsets:
        if found.source is not None:
            yield from (each for each, _, _ in found.source.copies(offset, offset + 1))
