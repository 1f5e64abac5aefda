"""The index of message keys as a feature: what follows the log, and who asks it."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.index.indexing import Indexing
from aerobee.broker.features.index.questions import Questions
from aerobee.broker.room import Sample, Work
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.query import QueryMessageRequest
from aerobee.remoting.net.routes import Routes
from aerobee.storage.features.index.choice import key_runs
from aerobee.storage.features.index.files import IndexShape, WrongIndexSizeError
from aerobee.storage.features.index.indexer import Indexer

FOLLOW_INTERVAL_S: Final = 0.25
"""So long at most after a message was stored its keys wait for the thread; a question wakes it."""
FOLLOW_BYTES: Final = 4 << 20
"""Of the log: so much is handed over earlier, while the caches of the CPUs still have it."""
FOLLOW_BYTES_WITH_RUNS: Final = 32 << 20
"""The same, where the log is not read: each time the thread and the loop wait for each other."""
RUNS_BYTES_MAX: Final = 32 << 20
"""While the thread keeps the index, for a sync say, so much waits beside what it has taken, which
may be as much; of the rest the log is read."""
EXPIRY_INTERVAL_S: Final = 10.0
"""How often an index hears what retention has removed from a log that does not grow."""


class MessageIndex(Feature):
    """Finds messages by their keys; switched off by `messageIndexEnable=false`.

    Of a store that is only read nothing is indexed, and found what the last process has left.
    """

    def __init__(self, parts: Parts) -> None:
        store, settings = parts.writing.store, parts.live.current
        self._store = store
        self._log = store.commit_log
        self._timer: asyncio.TimerHandle | None = None
        self._reach_at = sys.maxsize  # commits that end behind it are followed
        shape = IndexShape(settings.max_hash_slot_num, settings.max_index_num)
        self.indexer = Indexer(store.files, store.settings.root, shape)
        self.indexer.on_sealed = store.checkpoints.index_sealed
        self.indexer.log_on_disk = lambda: self._log.flushed_position
        self.runs = None if store.read_only else key_runs(RUNS_BYTES_MAX)
        self._follow_bytes = FOLLOW_BYTES if self.runs is None else FOLLOW_BYTES_WITH_RUNS
        self.indexing = Indexing(
            self.indexer, self._log.snapshot(), clean=not store.aborted, runs=self.runs
        )
        self.questions = Questions(parts.live, store, parts.cold, self.indexer, self.indexing)
        self.questions.offer = self._offer
        self.answers = Routes("index")
        self.answers.on(RequestCode.QUERY_MESSAGE, QueryMessageRequest)(self.questions.query)

    async def start(self) -> None:
        """Begin to follow the log, from where the last process ended."""
        if self._store.read_only:
            self.indexing.error = "the store is open for reading only"
            with suppress(OSError, WrongIndexSizeError):
                self.indexer.look()
            return
        self._store.checkpoints.before_last.append(self._finish)
        self.indexing.start()
        loop = asyncio.get_running_loop()
        self._call_later = loop.call_later
        self._noted, self._log.note = self._log.note, self._note
        if self.runs is not None:
            self._log.on_packed = self.runs.note
        self._settled()

    async def stop(self) -> None:
        """Hear no more of commits; what is left is indexed when the store closes."""
        self._reach_at = sys.maxsize
        self._log.on_packed = None
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> OSError | None:
        """End, where the store could not be closed as it should be."""
        self.indexing.stop(self._log.snapshot())
        return None

    def background(self) -> Iterable[Work]:
        """Have files go with the log."""
        if self._store.read_only:
            return ()
        return (Work("message index", self._offer, EXPIRY_INTERVAL_S),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell how far the index is behind."""
        return {
            "aerobee_index_lag_bytes": "Bytes of the log that the index of keys does not have yet",
            "aerobee_index_entries_total": "Keys that were indexed since the start",
            "aerobee_index_files": "Files of the index of keys",
            "aerobee_index_resting": "1 while nothing is indexed; the log says why",
            "aerobee_index_queries_total": "Questions for messages by key",
            "aerobee_index_queries_cut_total": "... whose answer may lack what they did not get to",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how far it is."""
        yield Sample("aerobee_index_lag_bytes", self.indexing.lag_bytes)
        yield Sample("aerobee_index_entries_total", self.indexer.entries)
        yield Sample("aerobee_index_files", len(self.indexer.newest_first()))
        yield Sample("aerobee_index_resting", self.indexing.error is not None)
        yield Sample("aerobee_index_queries_total", self.questions.asked)
        yield Sample("aerobee_index_queries_cut_total", self.questions.cut_short)

    def degraded(self) -> Iterator[str]:
        """Yield why nothing is indexed, if that is so."""
        if self.indexing.error is not None:
            yield f"messages are not found by key: {self.indexing.error}"
        if self.questions.damage is not None:
            yield self.questions.damage

    def shown(self) -> Mapping[str, Any]:
        """Return how far the index is."""
        index = {
            "position": self.indexing.position,
            "wholeFrom": self.indexer.begin,
            "lagBytes": self.indexing.lag_bytes,
            "files": len(self.indexer.newest_first()),
            "restsBecause": self.indexing.error,
        }
        return {"index": index}

    def _offer(self) -> None:
        """Index the little that waits, or hand over to the thread."""
        if self.indexing.take(self._log.committed):
            self.indexing.offer(self._log.snapshot())
        elif self._timer is None:
            self._timer = self._call_later(FOLLOW_INTERVAL_S, self._settled)

    def _note(self, position: int) -> None:
        """Hear of a commit, as cheaply as each has to be heard of."""
        self._noted(position)
        if position > self._reach_at:
            self._reached()

    def _reached(self) -> None:
        """Follow in a moment where nothing waits, else at once: what waits has become much."""
        self._reach_at = self._log.committed + self._follow_bytes
        if self._timer is None:
            self._timer = self._call_later(FOLLOW_INTERVAL_S, self._settled)
        else:
            self._offer()

    def _settled(self) -> None:
        """Hand over what waits, and hear of the next commit; an idle broker has none."""
        self._timer = None
        self._offer()
        self._reach_at = self._log.committed

    def _finish(self) -> None:
        """Index the rest before the store's last proof, which says until when it is on the disk."""
        self.indexing.stop(self._log.snapshot())
        self._store.checkpoints.index_sealed(self.indexing.ended_ms)


make = MessageIndex
