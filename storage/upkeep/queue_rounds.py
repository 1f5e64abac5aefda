"""Rounds over the queues that have changed, each of which ends with the checkpoints being written.

A round writes out what the queues that have changed have in memory, then has the disk take it. It
is cut into slices of a few milliseconds, whatever the number of queues: all of forty thousand at
once would keep the loop from serving for a third of a second. New files are made by a thread, for
the file system may keep waiting who asks it for one. Few files are synced one by one; of
very many the whole file system is, which costs less from some hundreds on, and where that does not
succeed each of them is asked after all. A file that fails costs its queue alone: what the round has
synced of others stays synced, and is noted by the next round that succeeds. A queue whose file
somebody has removed is left out from then on, and noted as one that the next start writes again.

What cannot be written stays in memory. Where the disk has no room, a round leaves off at the first
file that says so, and the next one begins with it.
"""

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.worker import Job
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import open_made
from aerobee.storage.upkeep.backends import SyncBackend
from aerobee.storage.upkeep.refused_files import NO_ROOM, OnRefused, RefusedFiles

log = logging.getLogger(__name__)

SLICE_S: Final = 0.002  # that a round takes from the loop at a time
FILES_PER_SUBMIT: Final = 64  # and as many file numbers are open meanwhile
FILES_PER_JOB: Final = 128  # that are made before some of them are written
FILES_ONE_BY_ONE: Final = 512  # of more than these the file system is synced
QUEUE_FILE: Final = 1 << 8  # tokens from here on are of files of queues
NO_FOLDER: Final = -1
LINES_MAX: Final = 10  # that one round logs of queues that failed: a dying disk may fail them all

Offsets = dict[ConsumeQueue, int]
"""Queues and their max offsets at one moment."""
OnSynced = Callable[[ConsumeQueue, int], None]


class QueueRound(msgspec.Struct):
    """The queues to sync so that everything dispatched below `position` is on the disk."""

    position: int
    offsets: Offsets  # of every queue that had changed when the round began
    waiting: deque[ConsumeQueue]  # those that are still to be written out
    unmade: list[ConsumeQueue] = msgspec.field(default_factory=list)  # that need new files
    making: list[ConsumeQueue] = msgspec.field(default_factory=list)  # that are getting them
    made: deque[ConsumeQueue] = msgspec.field(default_factory=deque)  # that have got theirs
    last_position: int = -1  # of the newest record
    end: int = 0  # of that record
    files: deque[tuple[ConsumeQueue, int]] = msgspec.field(default_factory=deque)  # by first entry
    before: dict[ConsumeQueue, int] = msgspec.field(default_factory=dict)  # what was flushed before
    under_way: dict[int, tuple[int, ConsumeQueue | None]] = msgspec.field(default_factory=dict)
    job: int = 0  # the token of what else is under way
    job_syncs: bool = False  # whether that is a sync of everything
    all_tried: bool = False  # whether the file system was to be synced
    bad: set[ConsumeQueue] = msgspec.field(default_factory=set)  # that have failed
    names: dict[str, None] = msgspec.field(default_factory=dict)  # folders, to sync after the files
    unnoted: Iterator[ConsumeQueue] | None = None  # of all that are on the disk
    failed: bool = False
    failures: int = 0  # of files
    lost: Collection[ConsumeQueue] = ()  # whose files are lost: nothing more is proven of them
    doubted: bool = False

    @property
    def synced(self) -> bool:
        """Whether nothing is left to be synced, or to be noted of that."""
        left = self.waiting or self.unmade or self.made or self.files
        return not (left or self.under_way or self.job)

    @property
    def queues_left(self) -> int:
        """How many are not on the disk yet."""
        queues = len(self.waiting) + len(self.unmade) + len(self.making) + len(self.made)
        return queues + len(self.files) + len(self.under_way)


class QueueRounds:
    """Syncs the files of one round after the other; `on_doubt` is called when a sync has failed.

    `on_synced` is called with each queue, and its offset, of a round all of which is on the disk;
    `on_refused` when the disk is found to have no room, and when it has.
    `lost` is set for good where entries are no longer what was written: only recovery mends that.
    """

    def __init__(
        self,
        parts: StoreParts,
        backend: SyncBackend,
        on_doubt: Callable[[], None],
        on_synced: OnSynced,
        on_refused: OnRefused,
    ) -> None:
        self._files = parts.files
        self._queues = parts.queues
        self._root = parts.queues.root
        self._backend = backend
        self._on_doubt = on_doubt
        self._on_synced = on_synced
        self.refused = RefusedFiles(parts.queues.refused, on_refused)
        self._carried: Offsets = {}  # synced by rounds that failed, and noted nowhere yet
        self._carried_last = (-1, 0)
        self._carried_names: dict[str, None] = {}
        self._unwritten: dict[ConsumeQueue, int] = {}  # that could not be read to be written anew
        self._tokens = QUEUE_FILE
        self._each = False  # a sync of everything has failed, and not every file has been asked yet
        self._folder = NO_FOLDER  # where failures of the whole file system are told from now on
        self.work_s = 0.0  # that the last round has taken from the loop
        self.round: QueueRound | None = None
        self.lost = False
        self.lost_queues: dict[ConsumeQueue, None] = {}  # by hands of others, not by a sync

    def write_what_is_left(self) -> bool:
        """Write anew what could not be read before, and what had no room; False if it still cannot.

        Until then no round may begin: a sync that succeeds would say nothing about the former.
        """
        left, self._unwritten = self._unwritten, {}
        for queue, offset in left.items():
            self._write_anew(queue, offset, told=True)
        return not self._unwritten and not self.lost and self.refused.has_room()

    def begin(self, position: int, changed: Iterable[ConsumeQueue]) -> None:
        """Begin to sync what has changed; all of it lies before `position`."""
        found = {queue: queue.max_offset for queue in changed if not (queue.gone or queue.lost)}
        offsets = self._carried | found if self._carried else found
        last, end = self._carried_last
        self._carried, self._carried_last = {}, (-1, 0)
        self.round = QueueRound(position, offsets, deque(found), last_position=last, end=end)
        self.round.names, self._carried_names = self._carried_names, {}
        self.round.lost = self.lost_queues
        self.work_s, self.refused.met = 0.0, False
        if len(found) > FILES_ONE_BY_ONE and self._folder == NO_FOLDER:
            with suppress(OSError):  # then each file is synced
                self._folder = self._files.open_directory(self._root)
        self.go_on()

    def go_on(self) -> None:
        """Write out the next few queues of the round, or submit its next few files."""
        round_ = self.round
        assert round_ is not None
        began_s = time.monotonic()
        while (queues := round_.made or round_.waiting) and len(round_.unmade) < FILES_PER_JOB:
            self._write_out(round_, queues.popleft(), made=queues is round_.made)
            if self.refused.met:
                self._leave_off(round_)
            if time.monotonic() - began_s >= SLICE_S:
                break
        if round_.unmade and not (round_.waiting and len(round_.unmade) < FILES_PER_JOB):
            round_.making, round_.unmade = round_.unmade, []
            paths = [(queue.file_to_make(), queue.file_bytes) for queue in round_.making]
            self._run(round_, partial(_make, self._files, paths))
        elif round_.waiting or round_.made:
            self._run(round_, _nothing)  # the loop serves until that is heard of
        elif len(round_.files) > FILES_ONE_BY_ONE and not (round_.all_tried or self._each):
            round_.all_tried = True
            self._run(round_, partial(self._files.sync_file_system, self._folder), syncs=True)
        elif not self._submit(round_) and not round_.failed:
            self._note(round_, began_s + SLICE_S)
        self.work_s += time.monotonic() - began_s

    def _run(self, round_: QueueRound, job: Job, *, syncs: bool = False) -> None:
        self._tokens += 1
        round_.job, round_.job_syncs = self._tokens, syncs
        self._backend.run(job, round_.job)

    def _note(self, round_: QueueRound, until_s: float) -> None:
        """Tell of some queues what is on the disk, and let the loop serve between them."""
        if round_.unnoted is None:
            round_.unnoted = iter(list(round_.offsets))
        for queue in round_.unnoted:
            if not (queue.gone or queue.lost):
                self._on_synced(queue, round_.offsets[queue])
            if time.monotonic() >= until_s:
                return self._run(round_, _nothing)

    def _write_out(self, round_: QueueRound, queue: ConsumeQueue, *, made: bool) -> None:
        """Write out one queue, as soon as its file is made; its files are to be synced."""
        offset = round_.offsets.get(queue, 0)  # 0: it is gone
        if queue.lost:
            return
        if not made and offset > queue.flushed_offset and queue.file_to_make() is not None:
            round_.unmade.append(queue)
            return
        queue.settle()
        if queue.max_offset > offset:  # of records that the round says nothing of
            queue.note_change()
        if offset <= queue.flushed_offset:
            return self.refused.remove(queue)
        round_.before.setdefault(queue, queue.flushed_offset)
        try:
            at, size, _ = queue.entry(offset - 1)
            round_.last_position = max(round_.last_position, at)
            round_.end = max(round_.end, 0 if size == BLANK_SIZE else at + size)
            round_.files.extend((queue, base) for base in queue.begin_sync(offset))
            if (folder := queue.take_name()) is not None:
                round_.names[folder] = None
            self.refused.remove(queue)
        except FileNotFoundError as error:
            self._lose(queue, error)
        except OSError as error:  # no room for its entries, say; memory has them still
            news = queue.dropped_from is not None or self.refused.add(queue, error)
            self._fail(queue, error, told=not news)

    def _leave_off(self, round_: QueueRound) -> None:
        """Write out nothing more: the next round begins with the queue that found no room."""
        for queue in (*round_.made, *round_.unmade, *round_.waiting):
            queue.settle()
            queue.note_change()
        for queues in (round_.made, round_.unmade, round_.waiting):
            queues.clear()

    def _submit(self, round_: QueueRound) -> bool:
        """Begin to sync the next few files; False where there are none."""
        syncs: list[tuple[int, int]] = []
        while len(syncs) < FILES_PER_SUBMIT and round_.files:
            queue, base = round_.files.popleft()
            if queue in round_.bad:
                continue
            try:
                fd = queue.open_file(base)
            except FileNotFoundError as error:
                self._lose(queue, error)
                continue
            except OSError as error:  # nothing is known to be wrong, and all is to be done
                self._fail(queue, error)
                continue
            self._tokens += 1
            round_.under_way[self._tokens] = (fd, queue)
            syncs.append((fd, self._tokens))
        if syncs:
            self._backend.submit(syncs)
        return bool(syncs)

    def completed(self, token: int, error: int) -> bool:
        """Take the outcome of one file, or of the job that was under way; whether it was a sync."""
        round_ = self.round
        if round_ is None:
            return True
        if token == round_.job:
            return self._job_done(round_, error)
        found = round_.under_way.pop(token, None)
        if found is None:
            return True
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
        return True

    def end(self) -> QueueRound:
        """End the round; of one that failed, what was synced is kept for the next."""
        round_ = self.round
        assert round_ is not None and round_.synced
        self.round = None
        if not self.refused.met:
            self.refused.room_met()
        if not round_.failed:
            self._each = False
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
        for each in gone:
            self._carried.pop(each, None)
            self.lost_queues.pop(each, None)
            self.refused.remove(each)
        if (round_ := self.round) is not None:
            for each in gone:
                round_.offsets.pop(each, None)
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
        if self._folder != NO_FOLDER:
            self._files.close(self._folder)
            self._folder = NO_FOLDER

    def _job_done(self, round_: QueueRound, error: int) -> bool:
        """Take the end of a slice, files that are made, or the outcome of a sync of everything."""
        round_.job = 0
        synced = round_.job_syncs
        for queue in round_.making:
            if queue.gone:
                self._queues.remove_left(queue)
            else:
                round_.made.append(queue)
        round_.making = []
        self._each |= bool(error)
        if synced and not error:
            round_.files.clear()
            round_.names.clear()
        elif error and error != errno.EOPNOTSUPP:  # each file is asked: it tells of its own failure
            log.warning("file_system_not_synced errno=%d path=%s", error, self._root)
        self.go_on()
        return synced

    def _fail(self, queue: ConsumeQueue, error: object, *, told: bool = False) -> None:
        """Let the next round sync the queue again; this one proves nothing."""
        round_ = self.round
        assert round_ is not None
        round_.failed = True
        round_.failures += not told
        if round_.failures <= LINES_MAX and not told:
            log.error("queue_sync_failed queue=%s error=%s", queue.directory, error)
        round_.bad.add(queue)
        queue.distrust(round_.before.get(queue, queue.flushed_offset))
        queue.note_change()

    def _write_anew(self, queue: ConsumeQueue, offset: int, *, told: bool = False) -> None:
        """Write what was not synced once more, since the next sync says nothing about it else."""
        try:
            sound = queue.write_anew(offset)
        except FileNotFoundError as error:
            return self._lose(queue, error)
        except OSError as error:  # tried again before the next round
            if not told:
                log.error("queue_not_written queue=%s error=%s", queue.directory, error)
            if error.errno in NO_ROOM:  # else it is about what the files have, not what they lack
                self.refused.add(queue, error)
            self._unwritten[queue] = min(offset, self._unwritten.get(queue, offset))
            return
        if not sound and not self.lost:
            self.lost = True
            self.refused.end()
            log.error(
                "queue_entries_lost queue=%s from=%d; no checkpoint is written any more, the next"
                " start of the broker writes them again from the log", queue.directory, offset,
            )  # fmt: skip

    def _lose(self, queue: ConsumeQueue, error: OSError) -> None:
        """Leave out a queue whose file others have removed or replaced; others are proven."""
        if queue.gone or queue.lost:
            return
        queue.lost = True
        self.refused.remove(queue)
        self.lost_queues[queue] = None
        if len(self.lost_queues) <= LINES_MAX:
            log.error(
                "queue_file_lost queue=%s error=%s advice=%r", queue.directory, error,
                "restart the broker: the queue is written again from the log",
            )  # fmt: skip

    def _close(self, fd: int) -> int:
        """Close a file; an error number where the system tells of a failed write only now."""
        try:
            self._files.close(fd)
        except OSError as error:
            return error.errno or 5
        return 0


def _make(files: Files, paths: Iterable[tuple[Path | None, int]]) -> None:
    """Make files; who then writes to one that could not be made finds out why."""
    for path, file_bytes in paths:
        if path is not None:
            with suppress(OSError):
                files.close(open_made(files, path, file_bytes))


def _nothing() -> None:
    """Do what a round does between two slices."""
