"""All copies of a store: each queue's, what is noted of them, and those of deleted topics."""

import logging
import threading
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.copied_queue import CopiedQueue
from aerobee.storage.features.compaction.notes import (
    Offsets,
    read_compacted,
    read_copied,
    write_compacted,
    write_copied,
)
from aerobee.storage.features.compaction.pairs import Folders
from aerobee.storage.features.compaction.units import CompactionSettings
from aerobee.storage.layout import COMPACTION_LOG, COMPACTION_QUEUE, REMOVED

log = logging.getLogger(__name__)

QueueName = tuple[str, int]
ASIDE: Final = "damaged/compaction"


class Copies:
    """The copies below one store's folder.

    `queue` and `drop` are for the thread that owns the store, the others for any.
    """

    def __init__(self, files: Files, root: Path, settings: CompactionSettings) -> None:
        self._files = files
        self._root = root
        self.settings = settings
        self._queues: dict[QueueName, CopiedQueue] = {}
        self._noted = read_copied(files, root)
        self._compacted = read_compacted(files, root)
        self._notes = threading.Lock()

    def queue(self, topic: str, queue_id: int) -> CopiedQueue:
        """Return the copy of a queue, which may still have to be loaded."""
        name = topic, queue_id
        found = self._queues.get(name)
        if found is None:
            folder = f"{topic}/{queue_id}"
            found = self._queues[name] = CopiedQueue(
                self._files,
                Folders(
                    self._root / COMPACTION_LOG / folder, self._root / COMPACTION_QUEUE / folder
                ),
                self.settings,
                self._root / ASIDE / folder,
                self._noted.get(name, 0),
            )
        return found

    def compacted_to(self, topic: str, queue_id: int) -> int:
        """Return up to which offset rounds have come, -1 where none has."""
        return self._compacted.get((topic, queue_id), -1)

    def note_compacted(self, queue: CopiedQueue, name: QueueName, offset: int) -> None:
        """Have the disk know how far a round of a copy has come, unless its topic was deleted."""
        with self._notes:
            if queue.gone:  # `remove` has, or will have, the note forget it
                return
            self._compacted = {**self._compacted, name: offset}
            write_compacted(self._files, self._root, self._compacted)

    def note_copied(self, offsets: Offsets) -> None:
        """Have the disk know up to where copies are on it."""
        with self._notes:
            self._noted = {**self._noted, **offsets}
            write_copied(self._files, self._root, self._noted)

    def has(self, topic: str) -> bool:
        """Whether there are files of a topic."""
        return any((self._root / kind / topic).exists() for kind in _KINDS)

    def topics(self) -> list[str]:
        """Return the topics that have files."""
        there = [self._root / kind for kind in _KINDS if (self._root / kind).is_dir()]
        return sorted({name for folder in there for name in self._files.names(folder)})

    def has_removed(self) -> bool:
        """Whether copies of a deleted topic are still being removed."""
        return (self._root / REMOVED).is_dir()

    def drop(self, topic: str) -> list[CopiedQueue]:
        """Forget a topic's queues; `remove` takes them."""
        names = [name for name in self._queues if name[0] == topic]
        return [self._queues.pop(name) for name in names]

    def remove(self, topic: str, queues: list[CopiedQueue]) -> None:
        """Remove the copies of a topic that was deleted, and what is noted of them.

        Its folders go in one step each: a crash leaves none of its records under its name.
        """
        for queue in queues:
            queue.give_up()
        removed = self._root / REMOVED
        self._files.make_directory(removed)
        for kind in _KINDS:
            folder, target = self._root / kind / topic, removed / f"{topic}.{Path(kind).name}"
            self._remove_all(target)
            if folder.exists():
                self._files.replace(folder, target)
                self._files.sync_directory(folder.parent)
        with self._notes:
            self._noted = _without(self._noted, topic)
            self._compacted = _without(self._compacted, topic)
            write_copied(self._files, self._root, self._noted)
            write_compacted(self._files, self._root, self._compacted)
        self.clear_removed()

    def clear_removed(self) -> None:
        """Remove what was left of deleted topics."""
        self._remove_all(self._root / REMOVED)

    def _remove_all(self, folder: Path) -> None:
        for name in self._files.names(folder):
            path = folder / name
            if path.is_dir():
                self._remove_all(path)
            else:
                self._files.remove(path)
        self._files.remove_directory(folder)


_KINDS: Final = (COMPACTION_LOG, COMPACTION_QUEUE)


def _without(offsets: Offsets, topic: str) -> dict[QueueName, int]:
    return {name: offset for name, offset in offsets.items() if name[0] != topic}
