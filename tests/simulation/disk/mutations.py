"""Faults that the store once had, put back one at a time: what the tester has to find."""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.syncs import Syncs, Unheard
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.next_record import NextRecord
from aerobee.storage.store import MessageStore
from aerobee.storage.upkeep import backends
from aerobee.storage.upkeep.backends import AioBackend
from aerobee.storage.upkeep.checkpoints import Checkpoints
from aerobee.storage.upkeep.flush import Flusher
from simulation.disk.oracles import Kind
from simulation.disk.plan import Plan, Trouble


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault, a seed that shows it, and plans that are likely to; the others are tried later."""

    name: str
    put_back: Callable[[ExitStack], None]
    seed: int  # which found it before
    likely: Callable[[Plan], bool]
    kinds: tuple[Kind, ...]  # what it may break

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the product have the fault."""
        with ExitStack() as patches:
            self.put_back(patches)
            yield


def _cut_at_the_first_damage(patches: ExitStack) -> None:
    """Recovery takes the first record that it cannot read for the end of the log."""
    patches.enter_context(patch.object(NextRecord, "find", lambda self, stop, newest_ms: None))


def _progress_before_commit(patches: ExitStack) -> None:
    """The note of progress counts entries whose records were not committed yet."""
    flush_queues, job = Flusher.flush_queues, Checkpoints.job

    def without_commit(self: Any) -> None:
        self._log.commit = lambda: None
        try:
            flush_queues(self)
        finally:
            del self._log.commit

    def without_look(
        self: Any, position: int, timestamp: int, offsets: Any, end: int = 0, names: Any = ()
    ) -> object:
        del end
        return job(self, position, timestamp, offsets, names=names)

    patches.enter_context(patch.object(MessageStore, "_commit", lambda self: None))
    patches.enter_context(patch.object(Flusher, "flush_queues", without_commit))
    patches.enter_context(patch.object(Checkpoints, "job", without_look))


def _full_queue_is_an_error(patches: ExitStack) -> None:
    """The kernel's queue being full counts as a failed sync."""

    def submit(self: Any, syncs: Sequence[tuple[int, int]], *, log: bool = False) -> None:
        del log
        if self._under_way + len(syncs) > backends.SLOTS:
            self._results += [(token, errno.EAGAIN) for _, token in syncs]
            self._bell.set()
            return
        self._others.extend(syncs)
        self._begin(self._others, backends.SLOTS)

    patches.enter_context(patch.object(AioBackend, "submit", submit))


def _believes_after_a_failed_sync(patches: ExitStack) -> None:
    """A failed sync ends no proof: the next start takes what memory has for durable.

    Nor does it ask which syncs nobody has heard of: this one would be among them.
    """
    patches.enter_context(patch.object(Flusher, "_doubt", lambda self: None))
    _nobody_asks_what_was_under_way(patches)


def _clean_stop_after_failed_syncs(patches: ExitStack) -> None:
    """A stop asks whether the log is synced, and writes the proof of the queues, too."""

    def flush_all(self: Any, timeout_s: float) -> bool:
        for _ in range(2):
            self.flush_log()
            self.flush_queues()
            if not self.drain(timeout_s):
                return False
        return bool(self._log.flushed_position >= self._log.committed)

    patches.enter_context(patch.object(Flusher, "flush_all", flush_all))


def _under_way_in_silence(patches: ExitStack) -> None:
    """Whoever dies within a sync leaves no word of it."""
    patches.enter_context(patch.object(Syncs, "_say", lambda self, which, word: None))


def _nobody_asks_what_was_under_way(patches: ExitStack) -> None:
    """A start does not look whether a sync was under way."""
    patches.enter_context(patch.object(BootNote, "unheard", lambda self: None))


def _believes_queues_under_way(patches: ExitStack) -> None:
    """A start looks at the log's syncs, and takes the queues for what memory has of them."""
    unheard = BootNote.unheard

    def of_the_log(self: BootNote) -> Unheard | None:
        found = unheard(self)
        return Unheard(found.log, None) if found and found.log is not None else None

    patches.enter_context(patch.object(BootNote, "unheard", of_the_log))


def _believes_the_log_under_way(patches: ExitStack) -> None:
    """A start looks at rounds over the queues, and takes the log for what memory has of it."""
    unheard = BootNote.unheard

    def of_queues(self: BootNote) -> Unheard | None:
        found = unheard(self)
        return Unheard(None, found.queues) if found and found.queues is not None else None

    patches.enter_context(patch.object(BootNote, "unheard", of_queues))


def _forgotten_names(patches: ExitStack) -> None:
    """Progress counts entries of files whose names the disk may not have."""
    patches.enter_context(patch.object(ConsumeQueue, "take_name", lambda self: None))


MUTATIONS = (
    Mutation(
        "the log is cut at the first damage",
        _cut_at_the_first_damage,
        1,
        lambda plan: Trouble.FLIP in plan.troubles,
        (Kind.GONE, Kind.UNCLEAN),
    ),
    Mutation(
        "progress before commit",
        _progress_before_commit,
        48,
        lambda plan: not plan.troubles,
        (Kind.PROOF,),
    ),
    Mutation(
        "a full queue is an error",
        _full_queue_is_an_error,
        24,
        lambda plan: plan.slots < len(plan.queues) and not plan.troubles,
        (Kind.STUCK,),
    ),
    Mutation(
        "proofs outlive a failed sync",
        _believes_after_a_failed_sync,
        184,
        lambda plan: Trouble.SYNC_FAILS in plan.troubles,
        (Kind.PROOF, Kind.LOST, Kind.GONE),
    ),
    Mutation(
        "a clean stop after failed syncs",
        _clean_stop_after_failed_syncs,
        65,
        lambda plan: Trouble.SYNC_FAILS in plan.troubles and plan.closes > 0.2,
        (Kind.PROOF, Kind.LOST),
    ),
    Mutation(
        "syncs are under way in silence",
        _under_way_in_silence,
        46,
        lambda plan: Trouble.UNHEARD in plan.troubles,
        (Kind.PROOF, Kind.LOST, Kind.GONE),
    ),
    Mutation(
        "nobody asks what was under way",
        _nobody_asks_what_was_under_way,
        46,
        lambda plan: Trouble.UNHEARD in plan.troubles,
        (Kind.PROOF, Kind.LOST, Kind.GONE),
    ),
    Mutation(
        "queues that were under way are believed",
        _believes_queues_under_way,
        91,
        lambda plan: Trouble.UNHEARD in plan.troubles,
        (Kind.PROOF, Kind.LOST, Kind.GONE),
    ),
    Mutation(
        "a log that was under way is believed",
        _believes_the_log_under_way,
        46,
        lambda plan: Trouble.UNHEARD in plan.troubles,
        (Kind.PROOF, Kind.LOST, Kind.GONE),
    ),
    Mutation(
        "names of files are not synced",
        _forgotten_names,
        48,
        lambda plan: not plan.journaled and not plan.troubles,
        (Kind.PROOF,),
    ),
)
