"""The index of message keys as a feature: what follows the log, and who asks it."""

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
from aerobee.storage.features.index.files import IndexShape, WrongIndexSizeError
from aerobee.storage.features.index.indexer import Indexer

FOLLOW_INTERVAL_S: Final = 0.05


class MessageIndex(Feature):
    """Finds messages by their keys; switched off by `messageIndexEnable=false`.

    Of a store that is only read nothing is indexed, and found what the last process has left.
    """

    def __init__(self, parts: Parts) -> None:
        store, settings = parts.writing.store, parts.live.current
        self._store = store
        shape = IndexShape(settings.max_hash_slot_num, settings.max_index_num)
        self.indexer = Indexer(store.files, store.settings.root, shape)
        self.indexer.on_sealed = store.checkpoints.index_sealed
        self.indexing = Indexing(self.indexer, store.commit_log.snapshot(), clean=not store.aborted)
        self.questions = Questions(parts.live, store, parts.cold, self.indexer, self.indexing)
        self.questions.offer = self._follow
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

    def close(self) -> OSError | None:
        """End, where the store could not be closed as it should be."""
        self.indexing.stop(self._store.commit_log.snapshot())
        return None

    def background(self) -> Iterable[Work]:
        """Tell the index now and then how far the log is."""
        return (Work("message index", self._follow, FOLLOW_INTERVAL_S),)

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

    def overview(self) -> Mapping[str, Any]:
        """Return how far the index is."""
        index = {
            "position": self.indexing.position,
            "wholeFrom": self.indexer.begin,
            "lagBytes": self.indexing.lag_bytes,
            "files": len(self.indexer.newest_first()),
            "restsBecause": self.indexing.error,
        }
        return {"index": index}

    def _follow(self) -> None:
        self.indexing.offer(self._store.commit_log.snapshot())

    def _finish(self) -> None:
        """Index the rest before the store's last proof, which says until when it is on the disk."""
        self.indexing.stop(self._store.commit_log.snapshot())
        self._store.checkpoints.index_sealed(self.indexing.ended_ms)


make = MessageIndex
