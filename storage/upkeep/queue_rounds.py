"""Rounds over the queues that have changed, each of which ends with the checkpoints being written.

A round is cut into portions of so many files, whatever the number of queues: all of forty thousand
at once would keep the loop from serving for a fifth of a second. A file that fails costs its queue
alone: what the round has synced of others stays synced, and is noted by the next round that
succeeds.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.upkeep.backends import SyncBackend

log = logging.getLogger(__name__)

FILES_PER_SUBMIT: Final = 64  # and as many file numbers are open meanwhile
QUEUE_FILE: Final = 1 << 8  # tokens from here on are of files of queues
LINES_MAX: Final = 10  # that one round logs of queues that failed: a dying disk may fail them all

Offsets = list[tuple[ConsumeQueue, int]]
"""Queues and their max offsets at one moment."""


@dataclass(slots=True)
class QueueRound:
    """The queues to sync so that everything dispatched below `position` is on the disk."""

    position: int
    offsets: Offsets  # of every queue that had changed when the round began
    waiting: deque[tuple[ConsumeQueue, int]]  # those whose files are still to be synced
    last_position: int = -1  # of the newest record
    end: int = 0  # of that record
    files: deque[tuple[ConsumeQueue, int]] = field(default_factory=deque)  # by first entry
    before: dict[ConsumeQueue, int] = field(default_factory=dict)  # what was flushed before
    under_way: dict[int, tuple[int, ConsumeQueue | None]] = field(default_factory=dict)
    names: dict[Path, None] = field(default_factory=dict)  # directories, to sync after the files
    failed: bool = False
    failures: int = 0  # of files
    doubted: bool = False

    @property
    def synced(self) -> bool:
        """Whether no file is left to be synced."""
        return not (self.waiting or self.files or self.under_way)


class QueueRounds:
    """Syncs the files of one round after the other; `on_doubt` is called when a sync has failed.

    `lost` is set for good where entries are no longer what was written: only recovery mends that.
    """

    def __init__(self, files: Files, backend: SyncBackend, on_doubt: Callable[[], None]) -> None:
        self._files = files
        self._backend = backend
        self._on_doubt = on_doubt
        self._carried: Offsets = []  # synced by rounds that failed, and noted nowhere yet
        self._carried_last = (-1, 0)
        self._carried_names: dict[Path, None] = {}
        self._unwritten: dict[ConsumeQueue, int] = {}  # that could not be read to be written anew
        self._tokens = QUEUE_FILE
        self.round: QueueRound | None = None
        self.lost = False

    def write_what_is_left(self) -> bool:
        """Write anew what could not be read before; False if it still cannot.

        Until then no round may begin: a sync that succeeds would say nothing about it.
        """
        left, self._unwritten = self._unwritten, {}
        for queue, offset in left.items():
            self._write_anew(queue, offset, told=True)
        return not self._unwritten and not self.lost

    def begin(self, position: int, changed: Iterable[ConsumeQueue]) -> None:
        """Begin to sync what has changed; all of it lies before `position`."""
        offsets = list((dict(self._carried) | {each: each.max_offset for each in changed}).items())
        last, end = self._carried_last
        self._carried, self._carried_last = [], (-1, 0)
        self.round = QueueRound(position, offsets, deque(offsets), last, end)
        self.round.names, self._carried_names = self._carried_names, {}
        self.go_on()

    def go_on(self) -> None:
        """Submit the next few files of the round."""
        round_ = self.round
        assert round_ is not None
        syncs: list[tuple[int, int]] = []
        while len(syncs) < FILES_PER_SUBMIT and (found := self._next_file(round_)) is not None:
            queue, base = found
            try:
                fd = queue.open_file(base)
            except FileNotFoundError:
                continue  # of a topic that has been deleted
            except OSError as error:
                self._refused(queue, error)
                continue
            self._tokens += 1
            round_.under_way[self._tokens] = (fd, queue)
            syncs.append((fd, self._tokens))
        if syncs:
            self._backend.submit(syncs)

    def completed(self, token: int, error: int) -> None:
        """Take the outcome of one file."""
        round_ = self.round
        found = round_.under_way.pop(token, None) if round_ is not None else None
        if round_ is None or found is None:
            return
        fd, queue = found
        error = self._close(fd) or error
        if error and queue is not None:  # derived data: no harm but that the checkpoint stays
            before = round_.before.get(queue, 0)
            self._fail(queue, os.strerror(error))
            if not round_.doubted:  # the first says it for all of the round
                round_.doubted = True
                self._on_doubt()
            self._write_anew(queue, before)
        if not round_.under_way:
            self.go_on()

    def end(self) -> QueueRound:
        """End the round; of one that failed, what was synced is kept for the next."""
        round_ = self.round
        assert round_ is not None and round_.synced
        self.round = None
        if round_.failures > LINES_MAX:
            log.error("queue_sync_failed files=%d lines=%d", round_.failures, LINES_MAX)
        if round_.failed:
            self._carried = round_.offsets
            self._carried_last = (round_.last_position, round_.end)
            self._carried_names = round_.names
        return round_

    def forget(self, queues: Collection[ConsumeQueue]) -> None:
        """Note and sync nothing more of queues that are gone."""
        gone = set(queues)
        self._unwritten = {
            queue: offset for queue, offset in self._unwritten.items() if queue not in gone
        }
        self._carried = [item for item in self._carried if item[0] not in gone]
        if (round_ := self.round) is not None:
            round_.offsets = [item for item in round_.offsets if item[0] not in gone]
            round_.waiting = deque(item for item in round_.waiting if item[0] not in gone)
            round_.files = deque(item for item in round_.files if item[0] not in gone)
            for token, (fd, queue) in round_.under_way.items():
                if queue in gone:  # another may have its name by the time this sync ends
                    round_.under_way[token] = (fd, None)

    def close(self) -> None:
        """Close the files of a round that will not end."""
        if self.round is not None:
            for fd, _ in self.round.under_way.values():
                self._close(fd)
            self.round = None

    def _next_file(self, round_: QueueRound) -> tuple[ConsumeQueue, int] | None:
        """Take the next file to sync, by queue and first entry; None when all are taken."""
        while not round_.files and round_.waiting:
            queue, offset = round_.waiting.popleft()
            if offset <= queue.flushed_offset:
                continue
            round_.before.setdefault(queue, queue.flushed_offset)
            try:
                at, size, _ = queue.entry(offset - 1)
                round_.last_position = max(round_.last_position, at)
                round_.end = max(round_.end, 0 if size == BLANK_SIZE else at + size)
                round_.files.extend((queue, base) for base in queue.begin_sync(offset))
                round_.names |= dict.fromkeys(queue.take_names())
            except OSError as error:  # its map may be gone, and there be no file number for it
                self._refused(queue, error)
        return round_.files.popleft() if round_.files else None

    def _refused(self, queue: ConsumeQueue, error: OSError) -> None:
        """A file that was not even opened: nothing is known to be wrong, and all is to be done."""
        self._fail(queue, error)

    def _fail(self, queue: ConsumeQueue, error: object) -> None:
        """Let the next round sync the queue again; this one proves nothing."""
        round_ = self.round
        assert round_ is not None
        round_.failed = True
        round_.failures += 1
        if round_.failures <= LINES_MAX:
            log.error("queue_sync_failed queue=%s error=%s", queue.directory, error)
        round_.files = deque(item for item in round_.files if item[0] is not queue)
        queue.distrust(round_.before.get(queue, queue.flushed_offset))
        queue.unsynced = True
        queue.note_change()

    def _write_anew(self, queue: ConsumeQueue, offset: int, *, told: bool = False) -> None:
        """Write what was not synced once more, since the next sync says nothing about it else."""
        try:
            sound = queue.write_anew(offset)
        except OSError as error:  # tried again before the next round
            if not told:
                log.error("queue_not_written queue=%s error=%s", queue.directory, error)
            self._unwritten[queue] = min(offset, self._unwritten.get(queue, offset))
            return
        if not sound and not self.lost:
            self.lost = True
            log.error(
                "queue_entries_lost queue=%s from=%d; no checkpoint is written any more, the next"
                " start of the broker writes them again from the log", queue.directory, offset,
            )  # fmt: skip

    def _close(self, fd: int) -> int:
        """Close a file; an error number where the system tells of a failed write only now."""
        try:
            self._files.close(fd)
        except OSError as error:
            return error.errno or 5
        return 0
