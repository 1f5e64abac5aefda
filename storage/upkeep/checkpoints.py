"""Both notes of what is on the disk, RocketMQ's `checkpoint` and our progress, written together."""

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.worker import Job
from aerobee.storage.proofs.checkpoint import Checkpoint, write_checkpoint
from aerobee.storage.proofs.progress import (
    Progress,
    ProgressTable,
    remove_progress,
    replace_progress,
    write_progress,
)
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.mending_note import MendingNote


class Checkpoints:
    """Keeps the progress of every queue encoded, so that a round costs what has changed.

    `job` returns work for another thread; everything else is called by the store's own.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root
        self._table = ProgressTable()
        self._lock = threading.Lock()  # held while a written file is put in place, or withdrawn
        self._generation = 0  # what was begun before a withdrawal is not put in place
        self.latest = Checkpoint()
        self._index_timestamp = 0
        self.before_last: list[Callable[[], object]] = []  # when a store closes, all on the disk

    def index_sealed(self, timestamp: int) -> None:
        """Have the next notes say until when (ms) index files are on the disk; from any thread.

        RocketMQ removes those that say more, unless the store was stopped cleanly.
        """
        self._index_timestamp = timestamp

    def trust(self, queues: Iterable[ConsumeQueue]) -> None:
        """Take what the queues say is flushed as what the disk has."""
        self._table = ProgressTable()
        for queue in queues:
            self._table.put(queue.topic, queue.queue_id, queue.flushed_offset)

    def put(self, queue: ConsumeQueue, offset: int) -> None:
        """Have the next `job` note how far a queue has got: so far it is on the disk."""
        self._table.put(queue.topic, queue.queue_id, offset)

    def job(
        self,
        position: int,
        timestamp: int,
        end: int = 0,
        names: Iterable[str] = (),
        lost: Collection[ConsumeQueue] = (),
    ) -> Job:
        """Return the work of noting that all before `position` is on the disk, not yet synced.

        `end` is where the record of the newest entry ends of what was `put`, `names` are folders of
        queues that have to be synced first, with those above them up to the store's. Of `lost`
        queues nothing is noted but that the next start has to write them again, and that before
        anything else.
        """
        left_out = tuple(lost)
        checkpoint = self._advance(position, timestamp)
        pieces = self._table.encode(position, timestamp)
        files, root, generation = self._files, self._root, self._generation

        def put(source: Path, target: Path) -> None:
            with self._lock:
                if generation == self._generation:
                    files.replace(source, target)
                else:
                    files.remove(source)

        def write() -> None:
            assert end <= position, f"an entry ends at {end}, the proof speaks of {position}"
            for directory in _with_those_above(names, root):
                with suppress(FileNotFoundError):  # of a topic that has been deleted
                    files.sync_directory(directory)
            if left_out:
                MendingNote(files, root).note(left_out)
            write_checkpoint(files, root, checkpoint, sync=False)
            replace_progress(files, root, pieces, sync=False, put=put)

        return write

    def write(self, progress: Progress) -> None:
        """Write both here and now, and return when the disk has them; no job may be under way.

        It is a store's last word.
        """
        for call in self.before_last:
            call()
        checkpoint = self._advance(progress.position, progress.timestamp)
        write_checkpoint(self._files, self._root, checkpoint, sync=True)
        write_progress(self._files, self._root, progress, sync=True)

    def write_progress(self, progress: Progress) -> None:
        """Write our progress alone, here and now."""
        write_progress(self._files, self._root, progress, sync=True)

    def withdraw(self) -> None:
        """Remove our progress, whose promise ends; OSError: it is still there."""
        with self._lock:
            remove_progress(self._files, self._root)
            self._generation += 1

    def forget(self, queues: Iterable[ConsumeQueue]) -> None:
        """Promise nothing of queues that are gone."""
        for queue in queues:
            self._table.forget(queue.topic, queue.queue_id)

    def _advance(self, position: int, timestamp: int) -> Checkpoint:
        self.latest = replace(
            self.latest,
            log_timestamp=timestamp,
            queue_timestamp=timestamp,
            index_timestamp=self._index_timestamp or self.latest.index_timestamp,
            confirm_position=position,
            queue_position=position,
        )
        return self.latest


def _with_those_above(folders: Iterable[str], root: Path) -> list[Path]:
    """Return folders below `root` and all between, each once, the lower ones first."""
    found: dict[Path, None] = {}
    above: dict[Path, None] = {}
    for folder in map(Path, folders):
        found[folder] = None
        above |= dict.fromkeys(each for each in folder.parents if root in (each, *each.parents))
    return [*found, *sorted(above, key=lambda each: -len(each.parts))]
