"""What a start finds of a copy: pairs that are whole, up to the first record to be copied again."""

import logging
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import WrongFileSize
from aerobee.storage.features.compaction import swap
from aerobee.storage.features.compaction.pairs import Folders, OpenPair, Pair, found_pair
from aerobee.storage.features.compaction.records import same_message, sound_record
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.units import UNIT_BYTES, CompactionSettings
from aerobee.storage.layout import file_name

log = logging.getLogger(__name__)

TRIES_MAX: Final = 100  # records that are damaged here or there, before none tells


class Finder:
    """Looks at the files of one queue; what cannot be used is kept aside, whole.

    So is what can be copied again: a crash leaves new files in any state.
    """

    def __init__(
        self, files: Files, folders: Folders, settings: CompactionSettings, aside: Path
    ) -> None:
        self._files = files
        self._folders = folders
        self._settings = settings
        self._aside = aside

    def found(self, queue_begin: int) -> list[Pair]:
        """Return the pairs in order, as far as they are whole or the log has nothing for them.

        WrongFileSize: a pair that cannot be copied again has files of another size.
        """
        names = [
            set(swap.numbered(self._files.names(folder)))
            for folder in (self._folders.records, self._folders.units)
        ]
        bases = sorted(names[0] | names[1])
        pairs: list[Pair] = []
        for number, base in enumerate(bases):
            wrong = self._wrong_size(base) if base in names[0] & names[1] else None
            if wrong is None and base in names[0] & names[1]:
                pairs.append(found_pair(self._files, self._folders, base, self._settings))
                continue
            reached = max((pair.last for pair in pairs), default=-1) + 1
            if reached >= queue_begin:  # all from here on is copied again
                for later in bases[number:]:
                    self._set_aside(later)
                break
            if wrong is not None:
                raise wrong
            self._set_aside(base)
        return pairs

    def without_end(self, pairs: list[Pair], checked_from: int, queue_end: int) -> list[Pair]:
        """Leave out what the log does not have, and all from the first unsound record on.

        Records of offsets before `checked_from` are on the disk, or nowhere else.
        """
        kept: list[Pair] = []
        for number, pair in enumerate(pairs):
            keep = self._sound(pair, checked_from, queue_end)
            if keep == pair.count and not self._may_lack(pairs, number, checked_from):
                kept.append(pair)
                continue
            log.warning(
                "compaction_copy_cut folder=%s file=%s units=%d kept=%d",
                self._folders.units, file_name(pair.base), pair.count, keep,
            )  # fmt: skip
            for later in reversed(pairs[number + 1 :]):
                self._set_aside(later.base)
            self._cut(pair, keep)
            kept.append(found_pair(self._files, self._folders, pair.base, self._settings))
            break
        return kept

    def _may_lack(self, pairs: list[Pair], number: int, checked_from: int) -> bool:
        """Whether a power loss may have taken units, or pairs, between one pair and the next.

        All before `checked_from` was on the disk: a gap there is what rounds have left out.
        """
        pair, later = pairs[number], pairs[number + 1 :]
        follows = bool(later) and later[0].base == pair.base + self._settings.file_bytes
        if pair.closed and follows:
            return False
        reached = max(each.last for each in pairs[: number + 1]) + 1
        following = next((each.first for each in later if each.count), reached)
        return max(reached, checked_from) < following

    def _sound(self, pair: Pair, checked_from: int, queue_end: int) -> int:
        """Return how many of a pair's units may stay."""
        if pair.last < min(checked_from, queue_end):
            return pair.count
        with OpenPair(self._files, self._folders, pair) as opened:
            number = opened.number_of(min(checked_from, queue_end))
            for unit in opened.units(number):
                if unit.offset >= queue_end or sound_record(opened.record(unit), unit) is None:
                    return number
                number += 1
        return number

    def without_earlier_life(self, pairs: list[Pair], source: CopySource) -> list[Pair]:
        """Leave out, and remove, what was copied of a topic that was deleted and made again.

        The queue itself says so, by the first record that both have, and have undamaged. OSError:
        some of it is still there.
        """
        if self.is_of(pairs, source) is not False:
            return pairs
        log.warning("compaction_copy_removed folder=%s reason=its topic was deleted",
                    self._folders.units)  # fmt: skip
        for pair in reversed(pairs):
            for path in reversed(self._folders.paths(pair.base)):
                self._files.remove(path)
        for folder in (self._folders.records, self._folders.units):
            self._files.sync_directory(folder)
        return []

    def is_of(self, pairs: list[Pair], source: CopySource) -> bool | None:
        """Whether pairs are copied of a queue; None where no record tells."""
        queue = source.queue
        tries = 0
        for pair in pairs:
            if pair.last < queue.min_offset or not pair.count:
                continue
            with OpenPair(self._files, self._folders, pair) as opened:
                for unit in opened.units(opened.number_of(queue.min_offset)):
                    tries += 1
                    if unit.offset >= queue.max_offset or tries > TRIES_MAX:
                        return None
                    copied = sound_record(opened.record(unit), unit)
                    own = source.record(unit.offset) if copied is not None else None
                    if copied is not None and own is not None:
                        return same_message(copied, own)
        return None

    def _wrong_size(self, base: int) -> WrongFileSize | None:
        sizes = (self._settings.file_bytes, self._settings.unit_file_bytes)
        for path, size in zip(self._folders.paths(base), sizes, strict=True):
            if (found := self._files.size(path)) != size:
                return WrongFileSize(
                    f"{path} has {found} bytes, expected {size}: set compactionMappedFileSize and"
                    " compactionCqMappedFileSize as they were when it was made"
                )
        return None

    def _set_aside(self, base: int) -> None:
        """Move what there is of a pair, its units first, without which its records are none."""
        self._files.make_directory(self._aside)
        for path in reversed(self._folders.paths(base)):
            if path.name in self._files.names(path.parent):
                kind = path.parent.parent.parent.name
                log.warning("compaction_file_set_aside file=%s", path)
                self._files.replace(path, self._aside / f"{kind}-{path.name}")

    def _cut(self, pair: Pair, keep: int) -> None:
        """Leave the first units of a pair."""
        fd = self._files.open(self._folders.paths(pair.base)[1])
        try:
            at = keep * UNIT_BYTES
            self._files.clear(fd, at, self._settings.unit_file_bytes - at)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
