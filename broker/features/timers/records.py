"""Records of the timers' queue: from memory, or from the disk without waiting for it."""

import logging
from collections.abc import Callable
from typing import Final

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.features.timers.waiting import (
    HEAD_BYTES,
    WaitingRecord,
    read_waiting,
    record_size,
)
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)


REGION_BYTES: Final = 1 << 16
"""Of the log: what is in memory of one record of it is taken for the others, within a turn."""


class ColdRecord(Exception):
    """A record must come from the disk first; it has been asked for."""


class WaitingRecords:
    """Finds records by their position; `on_fetched` is called when one has come from the disk."""

    def __init__(
        self, store: MessageStore, cold_reads: ColdReads | None, on_fetched: Callable[[], None]
    ) -> None:
        self._store = store
        self._cold_reads = cold_reads
        self._on_fetched = on_fetched
        self._fetching = False
        self._warm: set[int] = set()

    def look_again(self) -> None:
        """Ask anew what is in memory; to be called once a turn."""
        self._warm.clear()

    def get(self, position: int) -> WaitingRecord | None:
        """Return the record at a position, None where the log has it no more, which is logged."""
        commit_log = self._store.commit_log
        if position < commit_log.begin:
            log.error("timer_message_lost position=%d log_begin=%d", position, commit_log.begin)
            return None
        region = position // REGION_BYTES
        if region not in self._warm:
            if not self._store.reader.is_warm(position):
                self._fetch(position)
                raise ColdRecord
            self._warm.add(region)
        try:
            head = commit_log.view(position, HEAD_BYTES)
            view = None if head is None else commit_log.view(position, record_size(head))
            if view is None:
                raise ValueError("the log does not have it any more")
            return read_waiting(view, position)
        except ValueError as error:
            log.error("timer_message_dropped position=%d reason=%r", position, str(error))
            return None

    def _fetch(self, position: int) -> None:
        """Have a record brought into memory, and what lies behind it."""
        if self._cold_reads is None or self._fetching:
            return
        files, snapshot = self._store.files, self._store.commit_log.snapshot()
        path, base = snapshot.file(position)
        count = min(self._store.settings.message_bytes_max, base + snapshot.file_bytes - position)

        def fetch() -> None:
            fd = files.open(path, write=False)
            try:
                files.read(fd, count, position - base)
            finally:
                files.close(fd)

        def fetched(_: None, error: Exception | None) -> None:
            self._fetching = False
            if error is not None:
                log.error("timer_message_not_read position=%d error=%s", position, error)
            else:
                self._on_fetched()

        try:
            self._cold_reads.begin(TIMER_TOPIC, fetch, count, fetched)
        except RequestError:
            return  # too many wait for the disk: asked again next time
        self._fetching = True
